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
# # Other networks, other knowledge
#
# Hayes et al., Section 4.1 and Appendices A, C, E and K.1. The attack is the prior-aware one
# ({prf:ref}`Algorithm 2 <prf-hayes2023-alg2>`): name the candidate whose clipped gradients fit what is
# left of the released ones after the known records' are subtracted. Here the network changes, then
# the list of candidates, then what the attacker knows, then the clipping norm. Every picture holds the
# bound ({prf:ref}`Corollary 4 <prf-hayes2023-cor4>`), and below it what the best attack reaches when the
# candidates' gradients are orthogonal ({ref}`Bayes success <exhibit-beyond-bayes_success>`): with
# such candidates the space between the two curves is no attack's fault.
#
# Points come in two kinds. *Own model*: each trial trains the model that it attacks, as in the paper.
# *Shared*: many trials along the gradients of a few models, for wide networks and small intervals.

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
# ## Fine-tuning a last layer
#
# ### Figure 2
#
# For CIFAR-10 the paper trains only the last layer of a wide ResNet that was trained on ImageNet, and
# compares two attacks with two bounds. Where those weights are not to be had, fixed random filters
# stand in, on pieces of photographs in the quick profile; their accuracies say nothing about the
# paper's. The attack that knows no list searches pixels through the frozen network and is then asked
# to pick its target out of random lists.
#
# The ordering of the four comes out, and the prior is worth what the paper says. Two remarks do not
# hold. The older bound, {eq}`eq-hayes2023-2`, is not trivial at $\varepsilon = 10$
# ({ref}`E-C-14 <erratum-e-c-14>`). And attack and bound do not nearly meet there, because the
# bound is not attainable with ten candidates.

# %% tags=["exhibit:hayes2023/fig2", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig2"))

# %% [markdown]
# ## The size of the network
#
# ### Figure 7
#
# A hundred times the parameters make no difference to the attack: what matters is the signal
# $\sqrt T/\sigma$ and the angles between the candidates' gradients. The two larger counts that the
# paper prints are ten and a hundred times the smallest; the true ones are not, because the output's
# biases do not grow with the width ({ref}`E-C-12 <erratum-e-c-12>`).

# %% tags=["exhibit:hayes2023/fig7", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig7"))

# %% [markdown]
# ## The prior
#
# ### Figure 9
#
# The target may as well be noise. The paper draws noise images as far apart as the data and
# says no more; ours are uniform, of the width at which two of them differ as much as two images of the
# data in the mean square. On the small digits noise is named a little more often at large
# $\varepsilon$: no two noise images are nearly the same, and some digits are.

# %% tags=["exhibit:hayes2023/fig9", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig9"))

# %% [markdown]
# ## What the attacker has to know
#
# ### Figure 10
#
# An attacker who does not know the other records cannot subtract their gradients. Among five records
# that costs little. Among 129 the sum of the others decides which candidate fits best, at every
# $\varepsilon$ alike, for it is not noise that hides the target. The paper calls what is left random;
# it stays a little above one in ten.

# %% tags=["exhibit:hayes2023/fig10", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig10"))

# %% [markdown]
# ## The clipping norm
#
# ### Figure 13
#
# With $C = 1$ the mean clipped gradient gets shorter as $\varepsilon$ grows, and the attack falls
# behind the bound. Both come out, with norms close to the printed ones, if the learning rate is chosen
# by accuracy for every $\varepsilon$, as the paper does. The reason is that rate: at a fixed one the norm hardly
# depends on $\varepsilon$. Nor is $C = 0.1$ different in kind. As long as everything is clipped, $C$
# times the learning rate is all that training feels; with rates chosen at $C = 0.1$ itself the
# gradients fall below $C$ just as they do at $C = 1$.
#
# The paper conjectures that the lower success is real and not a weakness of the attack. It is both ({ref}`E-C-16 <erratum-e-c-16>`). The plain sum favours candidates with long gradients;
# the log likelihood subtracts half of every squared norm and names more targets. At $q = 1$ it is the
# best score there is, so what it still lacks is real: a short gradient is a weak signal.

# %% tags=["exhibit:hayes2023/fig13", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig13"))
