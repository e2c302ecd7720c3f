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
# # A staircase of knowledge
#
# One noisy release of a digit: how well can it be rebuilt? That depends on who tries. At the end of this page you know what each step of
# knowledge is worth to the attacker at one noise, from nothing to ten candidates, and which bound speaks of which step.
#
# The release is that of {prf:ref}`paper A's attack <prf-mean_to_extreme-alg_cor1_attack>`: the record plus Gaussian noise, at a scale that the attacker
# is granted. How the picture changes with the noise is in {doc}`the first chapter <00_fifteen_minutes>`.

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
# ## One noise, seven attackers
#
# - **Nothing**: the attacker takes the average of the rows as it is. No unbiased attack errs less by more than a few
#   thousandths ({prf:ref}`prf-beyond-known-norm`).
# - **Its norm**: the best use of the norm, {prf:ref}`at the worst record of that norm <prf-beyond-sphere>`.
# - **The mean** of such images, from 4,000 others, and how far they lie from it on average: it moves the copy towards the mean.
# - **Mean and covariance**: the filter that errs least among all affine ones.
# - **All the others**: the average of the other images, each weighted by how well it explains the release.
# - **A list with it**: the same, with the record among them.
# - **Ten with it**: paper C's attacker, who knows that the record is one of ten.
#
# The first four have a law for their error. By hand, that of the filter needs the eigenvalues $\lambda_i$ of the covariance only,
# $\frac1N\sum_i\frac{\lambda_is^2}{\lambda_i+s^2}$ with $s^2=\sigma^2\,\mathbb E\lVert X\rVert^2$:

# %%
import numpy as np

from reconrisk import datasets

others = datasets.classified("MNIST-5000", None, "all").inputs[:4000]
spread = np.linalg.eigvalsh(np.cov(others, rowvar=False, bias=True))
noise = 0.3**2 * np.mean(np.sum(others**2, axis=1))
print(f"by hand: {np.mean(spread * noise / (spread + noise)):.5f}")

# %% tags=["exhibit:beyond/staircase"]
from companion.papers.beyond import staircase

tables = staircase.measure(study)
row = tables["steps"].set_index("step").loc["and covariance"]
print(f"in the table: {row['law']:.5f}")
display(staircase.draw(tables))
study.judge(staircase, tables)

# %% [markdown]
# ## What it says
#
# **The first step is the largest.** An attacker who knows nothing errs seventy times as much as a blank
# picture does; one who knows the norm errs about as much as the blank picture. This step needs no secret:
# {prf:ref}`shrinking <prf-beyond-shrinkage>` takes it for every record.
#
# **In the middle the release hardly counts.** Between the mean image and thousands of other images the errors differ little. At this noise
# the attacker sees roughly what any digit looks like, and not this one.
#
# **The last step is another question.** Ten candidates turn reconstruction into a choice, and the same release answers it four times out
# of five. So "safe against reconstruction" says nothing until it says what the attacker knew before.
#
# **Which bound speaks of which step.** The laws of papers A and B are those of the first attacker. Paper C's
# bound, the black bars in the lower panel, holds for everyone, whatever they know, once the chance of a blind
# guess is given.

# %% [markdown]
# ## Try it
#
# **Compute.** At which noise is the right one of ten named at most every second time, by any attacker?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from reconrisk import DPSGD, bounds, privacy

needed = privacy.noise_for_success(0.5, 0.1, sampling_rate=1.0, steps=1)
print(f"sigma = {needed:.3f}; at 0.3 the bound is {bounds.rero(DPSGD(0.3), 0.1).upper:.3f}")

# %% [markdown]
# **Change.** The attacker who knows nothing learns that pixels lie between 0 and 1, and clips its copy. Which step of the staircase does it
# reach?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
records = datasets.classified("MNIST-5000", None, "all").inputs[4000:4500]
rng = np.random.default_rng(0)
lengths = np.linalg.norm(records, axis=1, keepdims=True)
copies = records + 0.3 * lengths * rng.normal(size=records.shape)
clipped = np.mean((np.clip(copies, 0, 1) - records) ** 2)
law = tables["steps"].set_index("step")["law"]
print(f"between the first two steps: {law['its norm'] < clipped < law['nothing']}")
print(
    "a pixel that is noise alone is now 0 or 1, each half of the time: worse than a blank picture"
)

# %% [markdown]
# **Prove.** If the record was drawn at random from the attacker's list, no attacker errs less on average than the one who
# takes the mean of the list, each entry weighted by its probability given the release.

# %% [markdown]
# ```{dropdown} Solution
# Let $Y$ be the release and $m(Y)=\mathbb E[X\mid Y]$, which is that weighted mean. For any estimate $\hat X(Y)$ the difference $m(Y)-\hat X(Y)$ is a function of $Y$,
# and $\mathbb E[X-m(Y)\mid Y]=0$. So $\mathbb E\lVert X-\hat X\rVert^2=\mathbb E\lVert X-m(Y)\rVert^2+\mathbb E\lVert m(Y)-\hat X(Y)\rVert^2$, and the
# second term is not negative.
# ```
