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
# # One scale for all defences
#
# At the end of this page you know how the five papers' notions of reconstruction compare on one and
# the same run.
#
# Five papers, five notions of what it means that a record can be reconstructed. They were defined
# for different attackers, measured on different models, and compared with different noise. Here one
# small network is trained by one DP-SGD on one data set, the attacker knows all records but one,
# and every notion is computed for that run, beside the attack that it bounds. Then the defences of
# Liu et al. that add no noise are put on the same scale.

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
# ## Every notion, one run
#
# From left to right in the first row. *Candidates*: the success of the attack that knows a prior
# ({prf:ref}`hayes2023 <prf-hayes2023-cor4>`), the bound of reconstruction robustness, and what epsilon and
# Bayes' capacity say of it. *Errors*: gradient matching within the range of pixels, least squares
# without it, the Cramér–Rao bound for unbiased reconstructions, and the analytic attack through a
# manipulated layer. *Near misses*: the probability of an error well below the distance of the nearest
# other record, the bound on it for every attack, and the prior-free tail of the analytic attack.
#
# Every bound holds for the attack beside it, and each of them could have failed
# ({prf:ref}`what binds whom <prf-beyond-one-scale>`). They do not agree on where the danger ends.
# The lower middle panel shows the noise from which each notion indicates no risk. Attacks without a prior
# fail at noise at which epsilon is still in the hundreds, and the attack with a prior where epsilon
# is near one. Bayes' capacity, which bounds every prior and every gain at once, needs far
# more noise. The bounds are not wrong to differ: they answer different questions. But an epsilon of ten
# says nothing about the Cramér–Rao bound, nor a Cramér–Rao bound above a pixel's range about epsilon.
#
# Defences without noise have no place on the horizontal axis. Their epsilon is infinite and their
# reconstruction robustness is one for every prior, because the true candidate explains what is
# released and no other does. What remains is how much of the record can be read without a prior.
# After clipping and local aggregation: all of it, from the first layer. After pruning and entry
# dropout: exactly what was not removed, and for each pruned entry a limit on its size. Their Cramér–Rao
# bound is zero where enough is kept and infinite where not, with nothing in between, and where it
# is infinite the attack that takes the limits into account can still be close.

# %%
from reconrisk import DPSGD, bounds, privacy

sigma = privacy.noise_for_epsilon(10.0, 1e-5, steps=20)
certified = bounds.rero(DPSGD(sigma, steps=20), prior_success=1 / 8)
print(f"by hand, at epsilon = 10: sigma {sigma:.4f}, success at most {certified.upper:.4f}")

# %% tags=["exhibit:beyond/one_scale"]
from companion.papers.beyond import one_scale

tables = one_scale.measure(study)
at_ten = tables["notions"].query("abs(epsilon - 10) < 1e-3").iloc[0]
print(
    f"in the figure, at epsilon = 10: sigma {at_ten['sigma']:.4f}, "
    f"success at most {at_ten['ReRo']:.4f}"
)
display(one_scale.draw(tables))
study.judge(one_scale, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** At the noise of $\epsilon=10$ an attacker with eight candidates succeeds in up to four cases of five. How many candidates does it take until nobody succeeds in more than one
# case of a hundred?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from scipy import stats

# success is Phi(Phi^-1(1/n) + sqrt(T)/sigma) for full batches
signal = 20**0.5 / sigma
needed = 1 / stats.norm.cdf(stats.norm.ppf(0.01) - signal)
print(f"{needed / 1000:.0f} thousand candidates, at a signal of {signal:.1f} standard deviations")
print(f"check: success {bounds.rero_gaussian(sigma, 1 / needed, steps=20):.3f}")

# %% [markdown]
# **Change.** Draw the batches at a rate of one tenth instead of taking all records in each step, at the same $\epsilon=10$. Does the certified success change?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
noise = privacy.noise_for_epsilon(10.0, 1e-5, sampling_rate=0.1, steps=20)
sampled = bounds.rero(DPSGD(noise, sampling_rate=0.1, steps=20), prior_success=1 / 8)
print(f"sigma {noise:.3f} instead of {sigma:.3f}")
print(
    f"success at most {sampled.upper:.2f} instead of {certified.upper:.2f}: one epsilon, two risks"
)

# %% [markdown]
# **Refute.** *Where the Cramér–Rao bound exceeds the range of a pixel, the record is safe.*

# %% [markdown]
# ```{dropdown} Solution
# Let the record be a picture of $N=784$ pixels that is either black or white, released with noise of standard deviation $\sigma=2$ in each pixel. Every
# unbiased reconstruction errs by at least 2 in each pixel, twice their range. The attacker who knows that there are two candidates averages all pixels: the average
# is 0 or 1 with noise of $2/28$, and a threshold at one half errs with probability $\Phi(-7)\approx10^{-12}$, and with it in every pixel. The bound
# speaks of each pixel alone and of attackers without a prior; what candidates have in common adds up over all pixels.
# ```
