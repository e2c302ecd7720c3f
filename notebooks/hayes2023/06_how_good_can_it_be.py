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
# # How good can the attack be?
#
# Hayes et al. find their prior-aware attack "nearly identical" to their bound, with a gap that widens
# for larger $\varepsilon$ and priors. Whose gap is it? In the Gaussian reduction the success of the best
# possible attack can be computed, and so can how far it must stay below the bound. Statements and
# proofs are on the {doc}`companion's page </book/papers/beyond>`.

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
# ## Full batch
#
# For equicorrelated gradients the best attack is {prf:ref}`Algorithm 2 <prf-hayes2023-alg2>`, and its success is one
# integral ({prf:ref}`prf-beyond-bayes`). Two opposite gradients attain the bound
# ({prf:ref}`prf-beyond-attained`); below $\kappa = \tfrac12$ nothing does ({prf:ref}`prf-beyond-not-attained`).
# With orthogonal gradients no attack comes near the bound at moderate $\varepsilon$, however it is built. Whether the
# gap widens or narrows with the prior depends on $\varepsilon$.

# %% tags=["exhibit:beyond/bayes_success", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/bayes_success"))

# %% [markdown]
# ## Sub-sampling
#
# Under sub-sampling the attacks differ. The likelihood is the best one and its success is known without
# simulation ({prf:ref}`prf-beyond-subsampled`). {prf:ref}`Algorithm 3 <prf-hayes2023-alg3>`, the paper's improvement,
# loses to the plain {prf:ref}`Algorithm 2 <prf-hayes2023-alg2>` where the noise is large: the top $qT$ of so many inner
# products are mostly noise.

# %% tags=["exhibit:beyond/subsampled_success", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/subsampled_success"))

# %% [markdown]
# ## A bound that looks at the candidates
#
# Corollary 4 knows nothing of the candidates but their number. If their gradients never come far apart, less
# can be found out: only the sum over the steps of the largest squared distance counts
# ({prf:ref}`prf-beyond-distances`). Below, many networks are trained for each list of candidates. One half tells how far
# apart the gradients come; how often the other half goes beyond that is added to the bound, with its
# confidence limit.

# %% tags=["exhibit:beyond/data_bound", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/data_bound"))

# %% [markdown]
# ## Very small priors
#
# Without candidates, success is to have a share $\rho$ of the pixels right. The prior success is then a binomial tail
# ({prf:ref}`prf-beyond-pixels`), not the printed power, and the bound follows it.

# %% tags=["exhibit:beyond/small_priors", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/small_priors"))
