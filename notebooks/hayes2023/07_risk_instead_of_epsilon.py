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
# # Risk instead of epsilon
#
# At the end of this page you can choose the noise of a run, and choose among runs of equal
# $\varepsilon$, by a certified bound on the risk itself.
#
# Hayes et al. bound the success $\gamma$ of every reconstruction attack on a run of DP-SGD by a
# number that depends on the noise multiplier, the sampling rate, the number of steps and the prior
# success $\kappa$ only ({prf:ref}`Corollary 4 <prf-hayes2023-cor4>`). The paper samples that number.
# Here it is enclosed from both sides, deterministically, and then used instead of
# $\varepsilon$: to choose the noise, and to choose among runs of equal $\varepsilon$. This page
# trains nothing and reads no data.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (not needed here)
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
# ## The number itself
#
# ### An enclosure
#
# {func}`reconrisk.bounds.rero_curve` composes one discretised step for many $\kappa$ at once; all
# roundings go to the safe side. Three routes that share no code with it agree: closed forms where
# there are any, quadrature at two steps in 30-digit arithmetic, and an inversion of the
# characteristic function, which is quick and accurate but not certified. Where a record takes
# part in only about one step, the inversion fails and sampling replaces it. An accountant made for
# $\varepsilon$ at a $\delta$ of 1e-5 does not suit this purpose: at small $\kappa$ cancellation makes
# its upper bound fall below the true value, and its lower bound is loose by tens of per
# cent at many steps.

# %%
from reconrisk import DPSGD, bounds

lower, upper = bounds.rero_curve(DPSGD(2.512, 0.02, 1000), 0.1, tolerance=1e-6)
print(f"by hand: {lower:.5f} to {upper:.5f}")

# %% tags=["exhibit:beyond/certified"]
from companion.papers.beyond import certified

tables = certified.measure(study)
row = tables["enclosures"].query("sigma == 2.512 and kappa == 0.1").iloc[0]
print(f"in the figure: {row['lower']:.5f} to {row['upper']:.5f}")
display(certified.draw(tables))
study.judge(certified, tables)

# %% [markdown]
# ### Where Algorithm 1 stops being a bound
#
# {prf:ref}`Algorithm 1 <prf-hayes2023-alg1>` draws outputs without the record and weighs them by
# likelihood ratios. Their variance grows like $\exp(T/\sigma^2)$: past $\sqrt T/\sigma$ of about
# three, most of $\gamma$ sits in outcomes that a million draws do not contain, and $1/N$ times the
# sum of the largest ratios is mostly too small. An upper bound on the risk must not fail in
# that direction. One minus $1/N$ times the sum of the other ratios stays at $\gamma$. Taking the threshold from draws without the record and
# the power from draws with it needs no weights either, and gives an interval that holds with the
# stated probability ({func}`reconrisk.bounds.rero_monte_carlo`).

# %%
import numpy as np
from reconrisk import DPSGD, bounds

run, rng = DPSGD(1 / 6), np.random.default_rng(1)  # sqrt(T)/sigma = 6
estimate = bounds.rero_algorithm1(run, 0.1, 100_000, rng, normalisation="samples")
gamma = bounds.rero_gaussian(1 / 6, 0.1)
print(f"by hand: gamma = {gamma:.6f}; the estimate is below 0.6 of it: {estimate < 0.6 * gamma}")

# %% tags=["exhibit:beyond/monte_carlo"]
from companion.papers.beyond import monte_carlo

tables = monte_carlo.measure(study)
row = tables["estimates"].query("signal == 6").iloc[0]
below = row["median"] < 0.6 * row["gamma"]
print(f"in the figure: gamma = {row['gamma']:.6f}; half of all estimates are: {below}")
display(monte_carlo.draw(tables))
study.judge(monte_carlo, tables)

# %% [markdown]
# ## Uses of the bound
#
# ### Calibrating to a risk
#
# {func}`reconrisk.privacy.noise_for_success` is to $\gamma$ what an accountant's calibration is to
# $\varepsilon$. The two are not interchangeable. At equal $(\varepsilon, \delta)$ the full batch
# has the largest risk, and a run in which a record takes part in few steps a much smaller one; a fixed
# risk admits a several times larger $\varepsilon$ there. With many steps all runs approach the full
# batch's trade-off curve and the difference vanishes.

# %%
from reconrisk import DPSGD, privacy

sigma = privacy.noise_for_success(0.5, 0.1, sampling_rate=0.1, steps=100)
epsilon = privacy.epsilon(DPSGD(sigma, 0.1, 100), 1e-5).upper
print(f"by hand: sigma = {sigma:.3g}, epsilon = {epsilon:.3g}")

# %% tags=["exhibit:beyond/iso_risk"]
from companion.papers.beyond import iso_risk

tables = iso_risk.measure(study)
row = tables["equal risk"].query("gamma == 0.5 and q == 0.1 and T == 100").iloc[0]
print(f"in the figure: sigma = {row['sigma']:.3g}, epsilon = {row['epsilon']:.3g}")
display(iso_risk.draw(tables))
study.judge(iso_risk, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** Two teams train on the same records, each with the run calibrated above: at most half
# of all attacks at $\kappa=1/10$ succeed, $q=0.1$, $T=100$. An attacker sees both runs. What is the
# risk now, and how much more noise would both need to keep one half together?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
both = bounds.rero(DPSGD(sigma, 0.1, 200), 0.1)
needed = privacy.noise_for_success(0.5, 0.1, sampling_rate=0.1, steps=200)
print(f"both runs: {both.upper:.2f}; one half again with {needed / sigma:.2f} times the noise")
print("two halves do not make one: risks compose through the trade-off curve")

# %% [markdown]
# **Change.** Three runs have the same risk of one half at $\kappa=1/10$: one full-batch step, the run
# above, and 50 steps with $q=0.02$. Change the prior: which is the riskiest for membership
# ($\kappa=1/2$), and which for a record that is one in ten thousand?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
settings = {"full batch": (1.0, 1), "q = 0.1": (0.1, 100), "q = 0.02": (0.02, 50)}
for name, (q, steps) in settings.items():
    noise = privacy.noise_for_success(0.5, 0.1, sampling_rate=q, steps=steps)
    rare, member = bounds.rero_curve(DPSGD(noise, q, steps), [1e-4, 0.5])[1]
    print(f"{name:10}: kappa = 1/2 {member:.2f}, kappa = 1e-4 {rare:.3f}")
print("the order is reversed: name the prior before you compare")

# %% [markdown]
# **Prove.** A run is calibrated to $\gamma_0$ at one prior $\kappa_0$. What does that say about other
# priors? Show that the curve $\gamma(\kappa)$ lies between two straight lines through
# $(\kappa_0,\gamma_0)$: the one through $(0,0)$ and the one through $(1,1)$.

# %% [markdown]
# ```{dropdown} Solution
# $\gamma$ is concave ({prf:ref}`Lemma 9 <prf-hayes2023-lem9>`) with $\gamma(0)\ge0$ and $\gamma(1)=1$. A concave
# curve lies above its chords and below their continuations. For $\kappa<\kappa_0$ the chord from
# $(0,0)$ gives $\gamma(\kappa)\ge\gamma_0\,\kappa/\kappa_0$, and the chord from $(\kappa_0,\gamma_0)$ to $(1,1)$,
# continued to the left, $\gamma(\kappa)\le\gamma_0-(\kappa_0-\kappa)\frac{1-\gamma_0}{1-\kappa_0}$. For
# $\kappa>\kappa_0$ the two change places. So $\gamma(\kappa)/\kappa$ never grows with $\kappa$, and from
# one half at $\kappa_0=1/10$ follows only that it lies between $0.0005$ and $0.445$ at $\kappa=10^{-4}$.
# ```
