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
# # Reconstruction without candidates
#
# Hayes et al., Section 2.1, Appendices A, B, D and I. The attacker knows all training records but one
# and has no list of candidates: from all privatised gradients, or from the final model alone, it has
# to draw the missing picture. The paper attacks MNIST and CIFAR-10; the quick profile attacks small
# handwritten digits, and small patches of photographs through fixed random features in place of the
# pretrained network. The same reconstructions serve all figures on this page.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (paper profile)
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
# ## The two attacks
#
# ### From all gradients: equation (1)
#
# {prf:ref}`The attack <prf-hayes2023-alg_gradient_based>`: subtract the known records' clipped gradients from each privatised one, and look for the picture
# whose own clipped gradients fit what is left, at all steps together. Equation (1) measures the fit by
# minus the inner product plus the L1 distance; the paper calls it the best of all losses it tried. But
# the noise is Gaussian: the squared distance *is* the likelihood, and it does better. The L1 term pays
# twice, in accuracy and because it alone has to look at every entry of every gradient.
#
# Nor does it take a million iterations. A few hundred of Adam reach what the noise allows, and without
# noise no iteration is needed: all steps' gradients of the first layer are multiples of the picture
# with a one appended, so that their leading singular vector is the picture.

# %% tags=["exhibit:hayes2023/alg_gradient_based", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/alg_gradient_based"))

# %% [markdown]
# ### From the final model: shadow models
#
# {prf:ref}`The attack <prf-hayes2023-alg_model_based>` of Balle et al.: train many models, each on the known records and one auxiliary picture,
# from the same known first weights; then train a network that maps a model to its picture. Without
# noise it works. Under noise a record moves the final weights by less than the noise does, and the
# network falls back to the mean picture.

# %% tags=["exhibit:hayes2023/alg_model_based", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/alg_model_based"))

# %% [markdown]
# ### Figure 1: both over epsilon
#
# The gradient-based attack wins by far at large $\varepsilon$. Where does it begin to work? The
# dotted line answers without an attack: it is the Cramér–Rao error of an unbiased reconstruction at
# these very models, and the attack follows it, once clipping to the pixels' range is taken into
# account. So what is missing at moderate $\varepsilon$ is information, not optimisation, and the only
# way below is a prior: on MNIST (the recorded run) the model-based attack, which has learnt no more
# than the mean picture, is still ahead at $\varepsilon = 1{,}000$. The lower bound that the paper draws,
# that of Guo et al., is printed without the brackets it needs and with
# the wrong $\varepsilon$. It holds for unbiased attacks; where $\varepsilon$ is small, any constant
# picture is below it.

# %% tags=["exhibit:hayes2023/fig1", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig1"))

# %% [markdown]
# ### Figure 6: what they look like

# %% tags=["exhibit:hayes2023/fig6", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig6"))

# %% [markdown]
# ## What are candidates worth?
#
# ### From a picture to a success
#
# A reconstruction counts as a success if, among $n$ candidates, its target is the nearest
# ({prf:ref}`Appendix D <prf-hayes2023-alg_postprocess>`). The paper
# draws a thousand random priors for each target. None need be drawn: the average over all priors is
# the chance that none of the nearer pictures is among $n - 1$ drawn ones.

# %% tags=["exhibit:hayes2023/alg_postprocess", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/alg_postprocess"))

# %% [markdown]
# ### Figure 8: with and without candidates
#
# The same gradients, attacked without knowledge of the candidates and with it. The paper reads off an
# order of magnitude of success in all cases. With two candidates no success can be more than twice
# that of guessing; the difference is in $\varepsilon$. At large $\varepsilon$ the order turns round:
# {prf:ref}`Algorithm 2 <prf-hayes2023-alg2>` stops short of certainty where some gradients are not
# clipped, the likelihood does not. And on MNIST (the recorded run) much noise makes the attack
# without candidates worse than guessing: what it fits to the noise looks unlike the pictures of the
# label that it was given, and so unlike its target.

# %% tags=["exhibit:hayes2023/fig8", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig8"))

# %% [markdown]
# ### Figure 12: no knowledge at all
#
# If the attacker knew nothing but that pixels lie in $[0, 1]$, how often could it get a share $\rho$
# of them right? The paper takes $(1/4)^{d\rho}$ for the chance without seeing anything. That is the
# chance for one fixed choice of $\rho d$ pixels; any choice will do, and the chance is
# {prf:ref}`a binomial tail <prf-beyond-pixels>`, larger by many orders of magnitude. And the
# bound is about uniform pictures. Real ones are not: a black picture has seen nothing, and yet
# it fits every digit that is mostly background.

# %% tags=["exhibit:hayes2023/fig12", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig12"))
