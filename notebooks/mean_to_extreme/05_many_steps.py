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
# # Many steps
#
# At the end of this page you know what an attacker gains who meets a record in several steps, when it
# knows in which of them the record took part and when it does not.
#
# *From Mean to Extreme*, Section 4.3. An attacker who meets a record in several steps can average
# its reconstructions. The paper leaves open what this means when the steps sample their records;
# the answer is an exact mixture.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's photographs (paper profile)
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
# ## Averaging, and the probability of selection
#
# An average of $k$ copies has a $k$-th of the variance
# ({prf:ref}`Proposition 7 <prf-mean_to_extreme-prop7>`). The printed probability of exactly $k$
# selections lacks the factor for the steps that do *not* select the record.

# %% tags=["exhibit:mean_to_extreme/prop7"]
from companion.papers.mean_to_extreme import prop7

tables = prop7.measure(study)
study.judge(prop7, tables)

# %% [markdown]
# ## The exact mixture
#
# With $K \sim \mathrm{Binomial}(T, 1/|D|)$ selections and $F_k$ the tail of an average of $k$,
#
# $$
# P(\mathrm{MSE} \le \eta) = \sum_{k=1}^{T} \binom{T}{k} |D|^{-k}(1-1/|D|)^{T-k}\,F_k(\eta),
# $$ (eq-beyond-mixture)
#
# with no success when the record is never selected. {py:func}`reconrisk.bounds.mse_tail_sampled`
# sums it in logarithms.

# %%
from reconrisk import bounds

# N = 64, sigma = 0.05, ||X|| = 1; 1,000 steps, each of which picks one of 100 records
print(f"by hand: {bounds.mse_tail_sampled(0.02 / 64, 64, 0.05, 1.0, 1000, 1 / 100):.6f}")

# %% [markdown]
# ## Steps without labels
#
# The mixture assumes that the attacker knows which steps drew the record. The paper calls that naive
# and leaves a strategy "for future work". The simplest is clustering: project the releases on
# their leading principal components and run k-means
# ({py:func}`reconrisk.attacks.match_steps`). With $|D|$ records drawn equally often, a principal
# component stands out of the noise as long as
#
# $$
# (C\sigma)^2 < L\,\sqrt{T/N},
# $$ (eq-beyond-matching)
#
# with $L$ the largest eigenvalue of the records' covariance; at larger noise none does
# {cite:p}`baik2005phase`. Look at how far below that limit the noise must be for clustering to find
# the labels: up to that noise the averages are as good as with labels, although a single release
# shows nothing. The limit grows only with the fourth root of the number of steps. It limits this method: in green,
# releases are filtered before they are clustered, which takes no more than knowing that photographs are smooth.

# %%
import numpy as np
from reconrisk import attacks, datasets

records = datasets.pictures(32, 8).reshape(8, -1)
clipping = np.linalg.norm(records, axis=1).max()  # no gradient is clipped
print(f"by hand: {attacks.matching_limit(records, steps=400) / clipping:.4f}")

# %% tags=["exhibit:beyond/unlabelled_steps"]
from companion.papers.beyond import unlabelled_steps

tables = unlabelled_steps.measure(study)
row = tables["matching"].query("T == 400 and `sigma over limit` == 1").iloc[0]
print(f"in the table: {row['sigma']:.4f}")
display(unlabelled_steps.draw(tables))
study.judge(unlabelled_steps, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** In the setting of the mixture by hand, an average of eight selections has the expected error that counts as a success.
# How many steps does it take until a success is as likely as not, and until it has probability 0.95?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
steps = np.arange(1, 3001)
success = bounds.mse_tail_sampled(0.02 / 64, 64, 0.05, 1.0, steps, 1 / 100)
for wanted in (0.5, 0.95):
    print(f"success {wanted:g} after {steps[success >= wanted][0]} steps")
print("eight selections are expected after 800 steps; luck makes the second number much larger")

# %% [markdown]
# **Change.** Draw without replacement: every record exactly once in each epoch of 100 steps. How does the success after 1,000 steps
# change, at the same threshold and at half of it?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for threshold in (0.02 / 64, 0.01 / 64):
    drawn = bounds.mse_tail_sampled(threshold, 64, 0.05, 1.0, 1000, 1 / 100)
    epochs = bounds.mse_tail(threshold, 64, 0.05, 1.0, repeats=10)
    print(f"error at most {threshold:.1e}: {epochs:.4f} by epochs, {drawn:.4f} by random draws")
print("epochs make the usual success more certain, random draws the unusual one more likely")

# %% [markdown]
# **Prove.** For small enough $\eta$ random draws make $\mathrm{MSE}\le\eta$ more likely than a schedule with the same mean number
# $k$ of selections does.

# %% [markdown]
# ```{dropdown} Solution
# The error of an average of $k$ is that of one release divided by $k$, so $F_k(\eta)=F_1(k\eta)$, and $F_1$, the
# distribution function of a scaled $\chi^2_N$, is $c\,\eta^{N/2}(1+o(1))$ near zero. With $K$ selections at random, at most $T$ of them, the ratio of the
# two probabilities tends to $\mathbb E[K^{N/2}]/k^{N/2}$ as $\eta\to0$; the term $K=0$ is zero in both. Since $z^{N/2}$ is strictly convex
# for $N>2$ and $\mathbb EK=k$, Jensen's inequality makes it larger than one.
# ```
