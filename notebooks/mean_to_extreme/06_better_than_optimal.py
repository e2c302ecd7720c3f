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
# # Better than "optimal", and what bounds every attack
#
# {prf:ref}`Theorem 1 <prf-mean_to_extreme-thm1>` calls $\hat X$ the best reconstruction. Four standard remedies
# beat it, one of them at every record and with no more knowledge than the paper grants. So the
# statements about *any* reconstruction need to be replaced; here is what can be said instead.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's photographs (paper profile)
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
# ## Better reconstructions, measured
#
# - **Shrunken**, $\hat X/(1+N\sigma^2)$: because the noise grows with the record's own norm, one
#   fixed factor is best for all records. Needs $\sigma$ and $N$.
# - **James-Stein**: needs the noise's standard deviation, which the known scale gives away.
# - **Clipped** to the range of the values: needs the range.
# - **Offset**: feed $X - c$ instead of $X$. Needs a typical value $c$, and one more fixed layer.

# %% tags=["exhibit:beyond/estimators", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/estimators"))

# %% [markdown]
# ## How good can a reconstruction be at every record?
#
# The shrunken reconstruction has the relative error $N\sigma^2/(1+N\sigma^2)$ at every record. No
# other does better at its worst ({prf:ref}`our own statement <prf-beyond-minimax>`): a prior on the record gives a
# lower bound on the worst error of *any* reconstruction, and as the prior on the norm widens these
# bounds climb to that very value.

# %% tags=["exhibit:beyond/minimax", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/minimax"))

# %% [markdown]
# ## The corrected ReRo statement
#
# For a *fixed* record no bound on every attack can exist: the attack that always returns that record
# succeeds. Two statements survive.
#
# **Known norm, unknown direction.** Let an attack see $\hat X\sim\mathcal N(X,\sigma^2 r^2 I)$ and
# know $r = \lVert X\rVert$. Whatever it returns, its worst success over the records of norm $r$ is
# at most
#
# $$
# P\bigl(\cos\angle(X,\hat X) \ge \sqrt{1 - N\eta/r^2}\bigr),
# $$ (eq-beyond-sphere-attained)
#
# and $\sqrt{r^2-N\eta}\,\hat X/\lVert\hat X\rVert$ attains it at *every* record. (The uniform
# prior on the sphere is least favourable, because rotations form a compact group; its best estimate
# is the middle of the most probable cap.) The cosine has the same law as the NCC:
# {py:func}`reconrisk.bounds.mse_tail_sphere`.
#
# **Any network, any attack.** The release is a Gaussian mechanism, so closed-form ReRo holds with
# the prior success of the best ball, here the cap's share of the sphere:
# {py:func}`reconrisk.bounds.rero_sphere`.

# %% tags=["exhibit:beyond/corrected_rero", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/corrected_rero"))

# %% [markdown]
# ## The price of not knowing the scale
#
# The paper grants the attacker the clipping factor. Without it, the noisy bias gradients estimate
# it. A fixed input scale $a$ trades the row noise, $\sigma^2(\lVert X\rVert^2 + 1/a^2)$, against the
# relative error of the scale, $\sigma\sqrt{a^2\lVert X\rVert^2+1}$: with
# $u = a^2\lVert X\rVert^2$ the MSE grows by
#
# $$
# 1 + \frac1u + \frac{1+u}{N} \;\ge\; \Bigl(1+\frac1{\sqrt N}\Bigr)^2
# $$ (eq-beyond-scale)
#
# to first order in $\sigma$, least at $u = \sqrt N$. For a photograph that is half a per cent.

# %% tags=["exhibit:beyond/unknown_scale", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/unknown_scale"))
