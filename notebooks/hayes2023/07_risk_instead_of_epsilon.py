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
# Hayes et al. bound the success $\gamma$ of every reconstruction attack on a run of DP-SGD by a
# number that depends on the noise multiplier, the sampling rate, the number of steps and the prior
# success $\kappa$ only ({prf:ref}`Corollary 4 <prf-hayes2023-cor4>`). The paper samples that number.
# Here it is enclosed from both sides, deterministically, and then used in the place of
# $\varepsilon$: to choose the noise, and to choose among runs of equal $\varepsilon$. Nothing on
# this page is trained and no data are read.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (not needed here)
overrides = {}  # {"exhibit id": {"parameter": value}}
workers = 1  # processes for sweeps
checkpoints = ""  # folder for the finished tasks of sweeps

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Set-up"}
from companion import figures, study

session = study.Study(
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
# characteristic function, which is quick and accurate but certifies nothing. Where a record takes
# part in about one step only, the inversion fails and sampling has to do. An accountant made for
# $\varepsilon$ at a $\delta$ of 1e-5 is not made for this: at small $\kappa$ its upper bound loses
# its digits to cancellation and falls below the truth, and its lower bound is loose by tens of per
# cent at many steps.

# %% tags=["exhibit:beyond/certified", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/certified"))

# %% [markdown]
# ### Where Algorithm 1 stops being a bound
#
# {prf:ref}`Algorithm 1 <prf-hayes2023-alg1>` draws outputs without the record and weighs them by
# likelihood ratios. Their variance grows like $\exp(T/\sigma^2)$: past $\sqrt T/\sigma$ of about
# three, most of $\gamma$ sits in outcomes that a million draws do not contain, and the estimate is
# almost always too small. An upper bound on the risk must not fail in that direction. Taking the
# threshold from draws without the record and the power from draws with it removes the weights, and
# gives an interval that holds with the stated probability
# ({func}`reconrisk.bounds.rero_monte_carlo`).

# %% tags=["exhibit:beyond/monte_carlo", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/monte_carlo"))

# %% [markdown]
# ## What to do with it
#
# ### Calibrating to a risk
#
# {func}`reconrisk.privacy.noise_for_success` is to $\gamma$ what an accountant's calibration is to
# $\varepsilon$. The two are not interchangeable. At equal $(\varepsilon, \delta)$ the full batch
# risks most, and a run with few participations of a record much less; a fixed risk admits a several
# times larger $\varepsilon$ there. With many steps all runs approach the full batch's trade-off
# curve and the difference vanishes.

# %% tags=["exhibit:beyond/iso_risk", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/iso_risk"))

# %% [markdown]
# ### Choosing among runs of equal epsilon
#
# The full batch also has the most signal at equal $\varepsilon$, so that its risk buys something.
# To compare like with like we hold the signal-to-noise ratio of the summed privatised gradient,
# $q\sqrt T/\sigma$, fixed as well. It leaves out how far optimisation gets in $T$ steps, so the
# answer is about privacy, not a recipe for training: few steps with large batches risk least, though
# one step is not always the best, and from thirty steps on every further step adds to the risk.

# %% tags=["exhibit:beyond/risk_choice", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/risk_choice"))
