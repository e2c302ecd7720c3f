# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The open challenge
#
# At the end of this page you can write an attack, have it scored, and know how far it is from the best possible.
#
# **The task.** A linear layer's private gradient shows a record's direction in Gaussian noise,
# $Y\sim\mathcal N(X/\lVert X\rVert,\sigma^2I)$. There are two ways to take part, and an entry may do both:
#
# - `name(releases, sigma, candidates)`: which of 1,000 candidates was the record? No attack names more than
#   paper C's bound ({prf:ref}`Corollary 4 <prf-hayes2023-cor4>`) allows.
# - `rebuild(releases, sigma, others)`: return the record, knowing 4,000 *other* records. No attack errs less on average than the
#   posterior mean of one who has the list of candidates.
#
# **The rules.** Everything public is granted: MNIST, this code, any network that you have trained. The draws are secret. When an entry is
# scored every record is made anew, a digit of MNIST turned, resized and shifted at random (or 64
# uniform values), so that no list holds it. Each function runs in a process of its own, which is sent its three arguments and
# nothing else. It is no sandbox: read a file before you score it.
#
# **The score** weighs an answer against every candidate that its release leaves possible, by its probability: luck does not count. Zero is
# the best single answer for all releases, one the bound or the least possible error. An entry that agrees with the records more closely than its releases explain is refused.
#
# ## Take part
#
# ```bash
# companion challenge example > my_attack.py
# companion challenge score my_attack.py
# ```
#
# An entry is a Python file; this is the one that the first command prints.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # draws the records and the noise
device = "cpu"
data_root = ""

# %%
from companion.study import registry

entries = registry.project_root() / "templates" / "challenge"
print((entries / "nearest.py").read_text())

# %% [markdown]
# ## First entries
#
# Our own, on 200 releases of digits at each of five noises, drawn from this page's seed. *Recognised* is the share of the
# way from the best single answer to paper C's bound, *error removed* that from its error to the least possible one; what is worse
# counts as zero.

# %%
import pandas as pd

from companion import challenge
from companion.study.tables import as_shown

scores = {}
for file in sorted(entries.glob("*.py")):
    entry = challenge.load_entry(file)
    scores[entry.title] = list(challenge.score(entry, seed=seed))

rows = [(*title.split(": "), *challenge.summary(found)) for title, found in scores.items()]
table = pd.DataFrame(rows, columns=["entry", "how", "recognised", "error removed"])
table = table.round(2).sort_values(["error removed", "entry"], ascending=[False, True])
display(as_shown(table.astype(object).where(table.notna(), "")), raw=True)

# %% [markdown]
# Noise by noise: the shaded strip is what is open, between the best entry and what nobody can do.

# %% mystnb={"image": {"alt": "Two panels over noise multipliers from 0.05 to 1. Left, the share of records named: the nearest direction falls from 1 to nearly 0, below the bound of paper C; guessing stays at 0. Right, the mean squared error: mean and covariance lowest of four entries, with the open strip below it down to the floor."}}
import matplotlib.pyplot as plt
import numpy as np

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
noises = np.array(challenge.NOISES)
one = next(iter(scores.values()))
for title, found in scores.items():
    short = title.partition(":")[0]
    if entry_names := [s.named for s in found if s.named == s.named]:
        left.plot(noises, entry_names, "o-", ms=4, label=short)
    right.plot(noises, [s.error for s in found], "o-", ms=4, label=short)
best = np.nanmin([[s.error for s in found] for found in scores.values()], axis=0)
right.fill_between(noises, [s.floor for s in one], best, color="0.9", label="open")
left.plot(noises, [s.bound for s in one], "k--", label="at most (paper C)")
left.set(xscale="log", xlabel="noise multiplier", ylabel="share of records named")
right.set(xscale="log", xlabel="noise multiplier", ylabel="mean squared error", ylim=(0, 0.16))
left.legend(fontsize=8)
right.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## What would be news
#
# - An entry whose error lies below the covariance's at $\sigma\le0.1$ without a list:
#   {ref}`a learnt prior <exhibit-beyond-learnt_prior>` shows that a denoiser can.
# - A proof of a smaller bound for these candidates. No entry names more than the likeliest direction does:
#   the gap to the bound is the bound's ({prf:ref}`prf-beyond-not-attained`).
#
# **To submit**, open a pull request that adds the file to `templates/challenge/`. What counts is its score on secret draws, which a test compares
# with the table above.
