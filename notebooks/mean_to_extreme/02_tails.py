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
# # The law of the error: MSE and PSNR
#
# At the end of this page you can compute how probable a copy within a given distance of the record
# is, however rare.
#
# *From Mean to Extreme*, Section 4.2.1. From the mean of the error to its tail: how probable is a
# reconstruction that comes within a threshold? The tails here are computed in logarithms and hold
# for a billion dimensions and probabilities far below $10^{-300}$
# ({py:func}`reconrisk.bounds.mse_tail`).

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
# ## The MSE is a scaled chi-squared variable
#
# {prf:ref}`Theorem 2 <prf-mean_to_extreme-thm2>` says so. Here it is tested on the MSEs
# of real DP-SGD steps.

# %% tags=["exhibit:mean_to_extreme/thm2"]
from companion.papers.mean_to_extreme import thm2

tables = thm2.measure(study)
study.judge(thm2, tables)

# %% [markdown]
# ## In high dimension it is normal
#
# {prf:ref}`Proposition B.3 <prf-mean_to_extreme-propB3>` says so. Here are the exact law's
# distance from its normal limit, and a test at the largest dimension.

# %% tags=["exhibit:mean_to_extreme/propB3"]
from companion.papers.mean_to_extreme import propB3

tables = propB3.measure(study)
study.judge(propB3, tables)

# %% [markdown]
# ## Reconstruction robustness for the MSE
#
# {prf:ref}`Proposition 3 <prf-mean_to_extreme-prop3>` makes two statements. The first is right: the
# tail with the smallest norm bounds $\hat X$ for every record. The second is not: the tail does not
# bound *any* reconstruction, and a shrunken $\hat X$ exceeds it by far. Bounds on every attack of
# this class are on {doc}`another page <06_better_than_optimal>`.

# %% tags=["exhibit:mean_to_extreme/prop3"]
from companion.papers.mean_to_extreme import prop3

tables = prop3.measure(study)
study.judge(prop3, tables)

# %% [markdown]
# ## The PSNR's tail
#
# {prf:ref}`Proposition 4 <prf-mean_to_extreme-prop4>` is the same law in decibels, for a known
# range of values.

# %% tags=["exhibit:mean_to_extreme/prop4"]
from companion.papers.mean_to_extreme import prop4

tables = prop4.measure(study)
study.judge(prop4, tables)

# %% [markdown]
# ## Any reconstruction, again
#
# {prf:ref}`Proposition 5 <prf-mean_to_extreme-prop5>` makes the same claim for the PSNR, and it
# fails in the same way.

# %% tags=["exhibit:mean_to_extreme/prop5"]
from companion.papers.mean_to_extreme import prop5

tables = prop5.measure(study)
study.judge(prop5, tables)

# %% [markdown]
# ## Figure 3: what moves the risk
#
# How does the probability of a faithful reconstruction depend on the noise, the dimension and the
# norm? Each is varied in the exact laws with the others at 1. Noise and norm shift the curves; the
# dimension makes them steeper around an expected MSE that stays.

# %%
from reconrisk import bounds

by_hand = bounds.mse_tail(1.0, dimension=1, noise_multiplier=2.0, data_norm=1.0)
print(f"risk of an MSE within 1 at sigma = 2, by hand: {float(by_hand):.4f}")

# %% tags=["exhibit:mean_to_extreme/fig3"]
from companion.papers.mean_to_extreme import fig3

tables = fig3.measure(study)
curve = tables["curves"].query("row == 1 and value == 2").set_index("MSE")["P(MSE <= eta)"]
print(f"risk of an MSE within 1 at sigma = 2, in the figure: {curve.iloc[120]:.4f}")
display(fig3.draw(tables))
study.judge(fig3, tables)

# %% [markdown]
# ## Figure 5: the MSE follows the scale
#
# The same picture in other units has another MSE: $a^2$ times as large, not $a$ times.

# %%
import numpy as np
import torch

from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

picture = torch.rand(1, 224 * 224 * 3, generator=torch.Generator().manual_seed(1))
mse = []
for seed, record in enumerate((picture, 10 * picture)):
    run = DPSGD(1e-3, max_grad_norm=float(record.norm()))
    rebuilt = known_scale(observe(record, run, torch.Generator().manual_seed(seed)))
    mse.append(metrics.mse(record.numpy()[0], rebuilt.numpy()[0]))
print(f"root of the MSEs' ratio, by hand: {np.sqrt(mse[1] / mse[0]):.1f}")

# %% tags=["exhibit:mean_to_extreme/fig5"]
from companion.papers.mean_to_extreme import fig5

tables = fig5.measure(study)
mse = tables["errors"].set_index("scale")["MSE"]
print(f"root of the MSEs' ratio, in the figure: {np.sqrt(mse['scaled'] / mse['original']):.1f}")
display(fig5.draw(tables))
study.judge(fig5, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** How far apart are the noise at which a reconstruction succeeds 99 times in 100 and the noise at which it
# succeeds once in 100, for a digit of 784 values and for a photograph of 150,528?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for values in (784, 150_528):
    likely, unlikely = (bounds.mse_quantile(p, values, 1.0, 1.0) for p in (0.99, 0.01))
    print(
        f"N = {values:,}: the noise grows by a factor of {(likely / unlikely) ** 0.5:.3f} in between"
    )
print("for a picture the success drops at one noise; there is hardly a partial risk")

# %% [markdown]
# **Change.** Take Laplace noise of the same variance. How much wider does the law of the MSE become at $N = 64$, from one row and from the
# average of sixteen?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
rng = np.random.default_rng(1)
for rows in (1, 16):
    noise = rng.laplace(scale=0.5**0.5, size=(4000, rows, 64)).mean(axis=1) * rows**0.5
    spread = np.mean(noise**2, axis=1).std() / (2 / 64) ** 0.5
    print(f"{rows} rows: the MSE deviates {spread:.2f} times as much as under normal noise")
print("averaging makes the noise normal, and Theorem 2 holds again")

# %% [markdown]
# **Prove.** For $s<1$, the probability of an MSE of at most $s$ times its mean is at most $(s\,e^{1-s})^{N/2}$: it falls exponentially in
# the dimension.

# %% [markdown]
# ```{dropdown} Solution
# By {prf:ref}`Theorem 2 <prf-mean_to_extreme-thm2>` it is $P(\chi^2_N\le sN)$. For every $t>0$, Markov's inequality gives
# $P(\chi^2_N\le sN)\le e^{tsN}\,\mathbb E e^{-t\chi^2_N}=e^{tsN}(1+2t)^{-N/2}$. The exponent is least at $1+2t=1/s$, that is at
# $t=(1/s-1)/2>0$, where the bound is $e^{(1-s)N/2}\,s^{N/2}$. At $s=\frac12$ and $N=784$ it is below $10^{-32}$.
# ```
