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
# # Attackers who know the sphere
#
# The attack of Biswas et al. treats turned gradients like any others. What can an attacker do who
# knows that the output's density depends on its cosine with the true direction only
# ({prf:ref}`Definition 4 <prf-biswas2024-def4>`)? This page carries the bound and the prior-aware
# attack of Hayes et al. and the analytic inversion of the other two papers over to von Mises-Fisher
# (VMF) noise, and ends with one table: which mechanism protects better, under which notion, when
# what is held equal.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data
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
# ## Reconstruction robustness
#
# Nothing in the proof of {prf:ref}`Theorem 2 <prf-hayes2023-thm2>` asks for Gaussian noise. With the
# trade-off curve of two opposite directions it bounds every attack on turned gradients
# ({prf:ref}`prf-beyond-vmf-rero`, {func}`reconrisk.bounds.rero_vmf`), certified from both sides
# like the Gaussian one. At the pairs of the paper's {ref}`Table IV <exhibit-biswas2024-table4>` VMF
# noise admits more success at every prior; at truly equal epsilon the two bounds are one curve.
#
# For one release without sub-sampling more can be said. Nor does the proof ask that the reference be
# the run without the record; any law will do that does not depend on it. The uniform law halves the
# signal ({prf:ref}`prf-beyond-vmf-uniform`), and two opposite candidates attain that bound.

# %% tags=["exhibit:beyond/vmf_rero", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/vmf_rero"))

# %% [markdown]
# ## The prior-aware attack
#
# The likelihood of a candidate is its cosine with the output, so that naming the largest sum of
# cosines is the best attack ({prf:ref}`prf-beyond-vmf-attack`). On directions in 13,700 dimensions
# it does what it would do under Gaussian noise of the same mean cosine.
#
# In a batch the informed adversary cannot subtract what it knows, because the sum is scaled to the
# sphere before it is turned; but it knows where each candidate would have turned the sum. One record
# turns a sum of 128 only a little, while the accounting lets it reverse the sum. That slack is why,
# at equal epsilon, the attack on VMF noise falls towards guessing as batches grow. It is paid for in
# the gradient's own cosine: at equal cosine the difference is gone.

# %% tags=["exhibit:beyond/vmf_prior_aware", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/vmf_prior_aware"))

# %% [markdown]
# ## The analytic inversion
#
# A layer with equal rows hands the attacker the record many times; the row mean of the turned
# gradient is the record's direction with noise that is even around it, and its errors have closed
# forms ({prf:ref}`prf-beyond-vmf-direction`). Given its length, the row mean is itself VMF around
# the record, and so is a Gaussian row mean: the two mechanisms are mixtures of the same laws
# ({prf:ref}`prf-beyond-mixture`). What scaling to the sphere takes away is the record's length,
# and a bias in the layer gives it back.

# %% tags=["exhibit:beyond/vmf_inversion", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/vmf_inversion"))

# %% [markdown]
# ## Which mechanism protects better?
#
# It depends on what is held equal. At equal epsilon VMF noise protects better and is worth less to
# the training; at equal capacity it is the other way round. What remains is to hold the cosine with
# the true gradient equal, on which accuracy depends
# ({ref}`Mechanism or calibration <exhibit-beyond-mechanism_or_calibration>`): then the attacks
# cannot tell the two apart, every certificate is in favour of Gaussian noise, and capacity in
# favour of VMF. The winners below are computed; *neither* means a difference too small to count.

# %% tags=["exhibit:beyond/vmf_notions", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/vmf_notions"))
