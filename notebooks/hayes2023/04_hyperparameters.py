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
# Hayes et al., Section 4.3 and Appendix K.2. Two runs can have the same $(\varepsilon,\delta)$ and
# leave an attacker unequal chances. The noise of every run on this page is tuned to its
# $\varepsilon$, with $\delta=10^{-5}$; then the bound of {prf:ref}`Corollary 4 <prf-hayes2023-cor4>` and
# the success of the attack are followed over the sampling rate $q$.
#
# The paper samples its bound; here it is an enclosure, so the curves have no noise. The attack is
# {prf:ref}`Algorithm 3 <prf-hayes2023-alg3>` on networks trained for it, one for each trial, together with the
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
# ## Figure 5: along one curve
#
# With ten candidates and $\varepsilon=4$ the bound rises from about 0.19 to 0.36 between $q=0.01$ and
# $q=0.99$. The paper reads 0.20 and 0.35 off its own curve. More steps at the same $\varepsilon$ raise
# the bound too, up to that of the full batch, which depends on neither $q$ nor $T$.

# %% tags=["exhibit:hayes2023/fig5", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig5"))

# %% [markdown]
# ## Figure 14: more epsilons and priors
#
# The same for three prior sizes. The trials of a panel's column are the same ones: a trial with a
# hundred candidates is a trial for every smaller prior that could have been drawn from them. The
# change over $q$ is small where $\varepsilon$ is small. It does not grow without end: for two and for
# ten candidates it is largest at $\varepsilon=10$ among the values here, because beyond that the bound
# is near one at every $q$ but the smallest.

# %% tags=["exhibit:hayes2023/fig14", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig14"))

# %% [markdown]
# ## Figure 15: noise, sampling and risk
#
# Each curve is a set of runs that a privacy statement cannot tell apart. What one would rather hold
# constant is on the {ref}`companion's page <exhibit-beyond-iso_risk>`.

# %% tags=["exhibit:hayes2023/fig15", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig15"))
