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
# # Defaults, audited
#
# Most people who train with differential privacy start from an example. What do the settings that frameworks ship and papers
# report leave to an attacker? At the end of this page you know it for twenty-five of them, and how to ask it of your own.
#
# Each setting stands in `data/companion/defaults.csv` with the version and the line that it comes from. We change nothing in it,
# and compute with the engine of the {doc}`report <03_assess_your_run>`: $\varepsilon$ anew, and the chance of the best attacker
# to name the right record among ten and among a million. An example is not advice: many of these files say that they
# demonstrate an interface. A setting that is copied protects as little as the example does, whatever it was meant for.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (paper profile)
overrides = {}  # {"exhibit id": {"parameter": value}}
workers = 1  # processes for sweeps
checkpoints = ""  # folder for the finished tasks of sweeps

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Set-up"}
from companion.study import Study

study = Study(
    profile=profile,
    seed=seed,
    device=device,
    data_root=data_root,
    overrides=overrides,
    workers=workers,
    checkpoints=checkpoints,
)

# %% [markdown]
# ## How to read it
#
# **What is assumed.** The certified numbers are those of DP-SGD in which every record is drawn independently at each step. Where a
# document shuffles its records, or draws a fixed number of clients, the setting is computed as if it drew them independently, as
# its own accountant does: the true risk may be larger. The attacker is the one of {doc}`paper C <../../book/papers/hayes2023>`: it sees every
# noisy gradient and knows everything but the record.
#
# **What is documented only as a guarantee** has no noise to compute with. $(\varepsilon,\delta)$ bounds the success by
# $e^{\varepsilon}\kappa+\delta$, and $\rho$-zCDP as full-batch noise of $1/\sqrt{2\rho}$ does. Such a bound may be far above what any
# attacker reaches, so its bar starts at guessing.
#
# By hand, the setting of TensorFlow Privacy's table that trains longest:

# %%
from reconrisk import DPSGD, bounds, privacy

run = DPSGD(1.1, sampling_rate=256 / 60_000, steps=14_062)
epsilon, ten = privacy.epsilon(run, 1e-5), bounds.rero(run, 1 / 10)
print(
    f"by hand: epsilon at most {epsilon.upper:.2f}, documented 3.01; one of ten at most {ten.upper:.3f}"
)

# %% tags=["exhibit:beyond/defaults"]
from companion.papers.beyond import defaults

tables = defaults.measure(study)
row = tables["settings"].set_index("setting").loc["TF Privacy: MNIST, 60 epochs"]
print(
    f"in the table: epsilon at most {row['epsilon, to']:.2f}; one of ten at most {row['one of ten, to']:.3f}"
)
display(defaults.draw(tables))
tables.show()
study.judge(defaults, tables)

# %% [markdown]
# ## Where each comes from

# %% tags=["hide-input"]
import pandas as pd
from IPython.display import Markdown

from companion.study import registry

settings = pd.read_csv(registry.project_root() / "data" / "companion" / "defaults.csv", dtype=str)
Markdown(
    "\n".join(
        f"- {row.source_name} ({row.version}), [{row.what}]({row.source}): {row.data}; {row.note}"
        for row in settings.itertuples()
    )
)

# %% [markdown]
# ## What it says
#
# **The reported numbers are honest.** No documented $\varepsilon$ is below the certified one. Rényi accounting
# makes them 1.07 to 1.4 times as large; that of the tutorial on tensorflow.org belongs to longer training than it runs today.
#
# **Two defaults protect nothing.** `mnist_dpsgd_tutorial_keras.py` adds noise of a tenth of the clipping norm, and
# `lm_dpsgd_tutorial.py` of a thousandth. The first file prints its $\varepsilon$ of several thousand at the end of training,
# so it hides nothing; but a model that was trained with these defaults is not protected, and calling it *differentially private*
# would mislead. In the Flower demonstration (noise of 0.2, three rounds) the best attacker names a client
# among a million three times in ten, and only five times in ten does the client take part at all.
#
# **$\varepsilon=50$ is no protection either.** The image classifier of Opacus's tutorial trains at it: one of ten is named 99 times in 100.
#
# **One $\varepsilon$, several risks.** Three settings at $\varepsilon=8$ leave different chances with ten candidates; which is the point of
# {doc}`choosing noise by risk <04_choose_noise_by_risk>`.
#
# **What is not here.** Opacus's tutorial on text takes one over the number of *batches* for $\delta$, which is the batch size
# times one over the number of records. A program that publishes one of its records at random meets such a guarantee. The size
# of its data set is not in the file, so no row of ours has it. Anil et al. (2021) on BERT and the runs of DP-FTRL before Gboard's are left out because we could not
# read their noise in a source.

# %% [markdown]
# ## Try it
#
# **Compute.** How much more noise would the two defaults that protect nothing need for an attacker with ten candidates to succeed in at most half of
# all cases?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for setting in tables["settings"].query("sigma <= 0.1").itertuples():
    needed = privacy.noise_for_success(0.5, 1 / 10, sampling_rate=setting.q, steps=setting.T)
    print(f"{setting.setting}: sigma = {needed:.2f}, {needed / setting.sigma:.0f} times as much")

# %% [markdown]
# **Change.** Take the credit for sampling away from the run by hand: each record takes part once in each of its sixty epochs, in a batch that the attacker
# knows.

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
epochs = round(run.sampling_rate * run.steps)
known = float(bounds.rero_gaussian(run.noise_multiplier, 1 / 10, steps=epochs))
print(f"one of ten: {ten.upper:.3f} if batches are drawn in secret, {known:.3f} in known batches")
print("what protects here is that nobody knows who took part, more than the noise")

# %% [markdown]
# **Prove.** A program that publishes one of its $n$ records, drawn at random, is $(0,1/n)$-differentially private.

# %% [markdown]
# ```{dropdown} Solution
# Let $P$ be the law of the output on $n$ records and $Q$ on all but one of them. $P$ gives each record $1/n$; $Q$ gives the missing one nothing and each other
# $1/(n-1)$. So $P(S)-Q(S)\le1/n$ for every set $S$, with equality for the missing record alone, and $Q(S)-P(S)\le(n-1)\bigl(\frac1{n-1}-\frac1n\bigr)=\frac1n$.
# A $\delta$ of one over the number of records therefore allows a program that exposes someone each time it runs; it should be far smaller.
# ```
