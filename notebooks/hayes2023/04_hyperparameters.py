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
# # Equal epsilon, unequal risk
#
# At the end of this page you know why runs with the same $(\varepsilon,\delta)$ do not leave the same
# risk, and in which direction sampling moves it.
#
# Hayes et al., Section 4.3 and Appendix K.2. Two runs can have the same $(\varepsilon,\delta)$ and
# give an attacker unequal chances. The noise of every run on this page is tuned to its
# $\varepsilon$, with $\delta=10^{-5}$; the figures show the bound of
# {prf:ref}`Corollary 4 <prf-hayes2023-cor4>` and the success of the attack over the sampling rate $q$.
#
# The paper samples its bound; here it is an enclosure, so the curves have no noise. The attack is
# {prf:ref}`Algorithm 3 <prf-hayes2023-alg3>`, with a network trained for each trial, together with the
# likelihood score of Appendix G.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data sets (paper profile)
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
# ## Figure 5: along one curve
#
# With ten candidates and $\varepsilon=4$ the bound rises from about 0.19 to 0.36 between $q=0.01$ and
# $q=0.99$. The paper gives about 0.20 and 0.35. More steps at the same $\varepsilon$ raise
# the bound too: with both it approaches that of the full batch, 0.3607, which does not
# depend on $T$.
#
# This holds for the prior sizes of the figures. Where the prior success is far below $\delta$, the
# order turns: at $\kappa=10^{-9}$ the left end of the curve has a bound of $4.6\times10^{-7}$, the
# full batch one of $2.0\times10^{-7}$. Runs of equal $(\varepsilon,\delta)$ are equal at one point
# of the trade-off between errors only, and sub-sampled ones have the heavier tail of privacy loss.
#
# The recorded run trains the paper's ten thousand networks at each of ten values of $q$. Algorithm 3 sums
# the $qT$ largest scores of a candidate. That is best where nearly every step includes the target: at
# $q=0.99$ it succeeds as often as the likelihood. At smaller $q$ it falls behind: at $q=0.2$ it is right in
# 0.236 of the trials, the likelihood in 0.288. At $q=0.99$ the paper gives about 0.32 for it, and we get
# 0.307 with a standard error of 0.003. The best attack on clipped and orthogonal candidates would reach
# 0.317. Our learning
# rate, 0.1, keeps every gradient clipped. At larger ones some become shorter than $C$, as in
# {ref}`Figure 13 <exhibit-hayes2023-fig13>`, and less is leaked.

# %%
from reconrisk import DPSGD, bounds, privacy

# the left end of the curve: ten candidates, (4, 1e-5)-DP, q = 0.01
sigma = privacy.noise_for_epsilon(4.0, 1e-5, sampling_rate=0.01, steps=100)
gamma = bounds.rero(DPSGD(sigma, sampling_rate=0.01, steps=100), 1 / 10, tolerance=1e-6)
print(f"by hand: {gamma.upper:.4f}")

# %% tags=["exhibit:hayes2023/fig5"]
from companion.papers.hayes2023 import fig5

tables = fig5.measure(study)
point = tables["bound"].query("q == 0.01").iloc[0]
print(f"in the figure: {point['gamma to']:.4f}")
display(fig5.draw(tables))
study.judge(fig5, tables)

# %% [markdown]
# ## Figure 14: more epsilons and priors
#
# The same for three prior sizes. All panels of a column use the same trials: a trial with a
# hundred candidates is a trial for every smaller prior drawn from them. The change over $q$ is small
# where $\varepsilon$ is small, but does not keep growing: for two candidates it is
# largest at $\varepsilon=10$, for ten at 16 among the values of the record, because for larger ones the
# bound is near one at every $q$ but the smallest.

# %%
from reconrisk import DPSGD, bounds, privacy

# the dashed curve: the best attack on two orthogonal candidates, (10, 1e-5)-DP, q = 0.1
sigma = privacy.noise_for_epsilon(10.0, 1e-5, sampling_rate=0.1, steps=100)
success = bounds.bayes_success_subsampled(DPSGD(sigma, sampling_rate=0.1, steps=100), 2)
print(f"by hand: {success:.4f}")

# %% tags=["exhibit:hayes2023/fig14"]
from companion.papers.hayes2023 import fig14

tables = fig14.measure(study)
point = tables["bound"].query("epsilon == 10 and q == 0.1 and n == 2").iloc[0]
print(f"in the figure: {point['best attack']:.4f}")
display(fig14.draw(tables))
study.judge(fig14, tables)

# %% [markdown]
# ## Figure 15: noise, sampling and risk
#
# Each curve is a set of runs with the same privacy guarantee. Runs of equal risk instead are on the
# {ref}`companion's page <exhibit-beyond-iso_risk>`.

# %%
from reconrisk import DPSGD, bounds, privacy

# a hundred candidates, (32, 1e-5)-DP, q = 0.01: where the paper's caption names 0.4
sigma = privacy.noise_for_epsilon(32.0, 1e-5, sampling_rate=0.01, steps=100)
gamma = bounds.rero(DPSGD(sigma, sampling_rate=0.01, steps=100), 1 / 100, tolerance=1e-6)
print(f"by hand: {gamma.upper:.4f}")

# %% tags=["exhibit:hayes2023/fig15"]
from companion.papers.hayes2023 import fig15

tables = fig15.measure(study)
point = tables["bound"].query("epsilon == 32 and q == 0.01 and n == 100").iloc[0]
print(f"in the figure: {point['gamma to']:.4f}")
display(fig15.draw(tables))
study.judge(fig15, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** With ten candidates the left end of Figure 5's curve is safer than the full batch.
# The page says that the order turns for very small priors. At which power of ten has it turned?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
import numpy as np

priors = 10.0 ** -np.arange(1, 10)
left = DPSGD(0.5906, sampling_rate=0.01, steps=100)  # the noise of the first point by hand
sampled = bounds.rero_curve(left, priors)[1]
full = bounds.rero_gaussian(privacy.noise_for_epsilon(4.0, 1e-5), priors)
turned = 1 + int(np.argmax(sampled > full))
print(f"the sub-sampled run allows more from kappa = 10^-{turned} on, far below delta")

# %% [markdown]
# **Change.** $\delta=10^{-5}$ is a convention. Keep $\varepsilon=4$ and ten candidates, and calibrate
# the full batch at $\delta=10^{-3}$ and at $\delta=10^{-9}$. How much of the risk is the convention's?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for delta in (1e-3, 1e-5, 1e-9):
    noise = privacy.noise_for_epsilon(4.0, delta)
    print(f"delta = {delta:g}: at most {bounds.rero_gaussian(noise, 1 / 10):.2f}")
print("at one epsilon delta moves the bound about as much as q does in Figure 5")

# %% [markdown]
# **Prove.** Why does the bound of the full batch depend on $(\varepsilon,\delta)$ and $\kappa$ only, and
# not on the number of steps? (The smallest $\delta$ at $\varepsilon$ is
# $\Phi(\frac\mu2-\frac\varepsilon\mu)-e^\varepsilon\,\Phi(-\frac\mu2-\frac\varepsilon\mu)$ with
# $\mu=\sqrt T/\sigma$.)

# %% [markdown]
# ```{dropdown} Solution
# The bound is $\Phi(\Phi^{-1}(\kappa)+\mu)$, so it is enough that $(\varepsilon,\delta)$ determines
# $\mu$: that $\delta$ grows strictly with $\mu$. Because
# $e^\varepsilon\varphi(\frac\mu2+\frac\varepsilon\mu)=\varphi(\frac\mu2-\frac\varepsilon\mu)$, its derivative is
# $\varphi(\frac\mu2-\frac\varepsilon\mu)\big[(\frac12+\frac\varepsilon{\mu^2})-(-\frac12+\frac\varepsilon{\mu^2})\big]
# =\varphi(\frac\mu2-\frac\varepsilon\mu)>0$. Steps and noise enter through $\mu$ alone. With $q<1$ the
# law of the privacy loss has more than one parameter, and one $(\varepsilon,\delta)$ does not fix it.
# ```
