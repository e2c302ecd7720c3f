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
# # Is it the mechanism or the calibration?
#
# Biswas et al. find Gaussian noise more useful and von Mises-Fisher (VMF) noise more protective at
# what they take to be one $\varepsilon$ (Section VII). Their pairs of settings do not have one
# $\varepsilon$ ({ref}`Table IV <exhibit-biswas2024-table4>`), and they hand out gradients that
# point in very different directions. Here the two are compared by how well the released gradient
# points along the true one; then capacity, $\varepsilon$ and this cosine compete for ordering the
# risk of reconstruction; and last, no noise at all: what does a batch allow? With bundled data the
# handwritten digits stand in for MNIST and grey patches of photographs for Fashion-MNIST.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (MNIST and FashionMNIST in the paper profile)
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
# ## At equal cosine
#
# Both mechanisms favour no direction across the true gradient, so that the direction they release
# is told by one random number, its cosine with the true one
# ({prf:ref}`Equal cosine, equal direction <prf-beyond-directions>`). At equal means of that
# number the two laws are at most 0.029 apart in total variation, whatever the mean; the published
# attack looks at nothing but the direction. So neither accuracy nor reconstruction should tell the
# mechanisms apart, and over four orders of magnitude of noise they do not: one curve. The paper's
# pairs lie far apart on it, and that is all that its comparison shows. The printed reconstructions
# are, besides, farther from the pictures than the mean picture of their class, which takes the
# labels only.

# %% tags=["exhibit:beyond/mechanism_or_calibration", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/mechanism_or_calibration"))

# %% [markdown]
# ## What orders the risk?
#
# The paper's thesis is that Bayes' capacity orders the risk of reconstruction across mechanisms and
# $\varepsilon$ does not ({ref}`Figure 4 <exhibit-biswas2024-fig4>`). At its pairs this is so, and
# at truly equal $\varepsilon$ as well. But there $\varepsilon$ had no chance: it is equal. Hold
# capacity equal instead, and capacity has none, $\varepsilon$ orders nearly everything, and
# Gaussian noise protects better in every pair. The cosine orders all three.

# %% tags=["exhibit:beyond/fair_order", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/fair_order"))

# %% [markdown]
# ## What a batch allows
#
# The network has 13,700 weights; a batch of 128 has 32,768 pixels. Yet the failure of the published
# attack at small batches is not one of information: the rows of the first layer's gradient are
# combinations of the records, and within their span only $n^2$ numbers are unknown.
# {func}`reconrisk.attacks.span_attack` finds them, in double precision and without noise.
# {func}`reconrisk.attacks.gaussian_prior_attack` adds what is known of digits beforehand.

# %% tags=["exhibit:beyond/batch_limits", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/batch_limits"))
