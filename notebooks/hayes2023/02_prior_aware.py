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
# # The prior-aware attack
#
# Hayes et al., Sections 3.4, 4.2 and 4.3, Appendices A, F and G. The attacker knows all training
# records but one, sees every privatised gradient and has $n$ candidates, one of which is the record.
# Which one is it? {prf:ref}`Corollary 4 <prf-hayes2023-cor4>` bounds how often any attack can be
# right. Here the attacks are run: every trial draws a prior and a target, trains a model on it by
# DP-SGD, and lets the attacker look. The paper trains on MNIST; the quick profile trains the same
# network on small handwritten digits.

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
# ## Three scores
#
# ### Algorithm 2: the sum
#
# Subtract the known records' clipped gradients from every privatised gradient; what is left is noise,
# and the target's clipped gradient where it took part. {prf:ref}`Algorithm 2 <prf-hayes2023-alg2>`
# sums each candidate's inner products with it. For the target such a product is normal with mean
# $C^2$, for another candidate its mean is smaller, and the paper calls it about zero if gradients are
# orthogonal. On images of one class they are not: that, and geometry, is why the attack stays below
# the bound. Even orthogonal gradients do not reach it, as
# {prf:ref}`the exact success <prf-beyond-bayes>` shows.

# %% tags=["exhibit:hayes2023/alg2", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/alg2"))

# %% [markdown]
# ### Algorithm 3: the largest inner products
#
# Under sub-sampling the target takes part in a share $q$ of the steps only, and most inner products
# are noise. {prf:ref}`Algorithm 3 <prf-hayes2023-alg3>` keeps each candidate's $qT$ largest ones.

# %% tags=["exhibit:hayes2023/alg3", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/alg3"))

# %% [markdown]
# ### Appendix G: the likelihood
#
# Given the steps before, what is left of a privatised gradient is a mixture of two normal laws, so its
# likelihood is known and the best possible score with it
# ({prf:ref}`Appendix G <prf-hayes2023-appG_attack>`). The printed formula has a sign wrong and cannot
# work in as many dimensions as a network has; and a prior enters a logarithm as a logarithm. Put
# right, the score also needs no gradient to be clipped, because it subtracts half of each squared
# norm: what the paper's Appendix K takes for a limit of any attack is one of the sum.

# %% tags=["exhibit:hayes2023/appG_attack", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/appG_attack"))

# %% [markdown]
# ## Figure 3: the size of the prior
#
# More candidates are harder to tell apart. One trial with many candidates also says whether it would
# have been right with fewer, so that each curve rests on one set of trials; and trials can share a
# trajectory: the gradients along one training run already say how alike the candidates are. Where
# both were run they agree. They cannot where a target is a good part of the batch and the noise is
# small: with a handful of known records the trajectory depends on the target, and the shortcut is too
# optimistic.
#
# The paper chose its learning rates by accuracy and does not print them. It also reports that with
# $C = 0.1$ every gradient is clipped (Figure 13). Here that holds up to a learning rate of about 5,
# which is used for the attacks; the accuracy is measured for larger ones too.

# %% tags=["exhibit:hayes2023/fig3", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig3"))

# %% [markdown]
# ## Figure 4: mini-batches
#
# The paper's improved attack is indeed far better than the plain one where $\varepsilon$ is large. At
# small $\varepsilon$ it is worse: the $qT$ largest of many noisy values are mostly noise. The
# likelihood weighs every step by how likely the target took part, and is behind neither.

# %% tags=["exhibit:hayes2023/fig4", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("hayes2023/fig4"))
