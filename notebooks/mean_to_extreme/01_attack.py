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
# # The attack and its optimality
#
# At the end of this page you know how one linear layer gives a record away, how much noise remains in
# the copy, and which of the paper's statements about it are wrong as printed.
#
# *From Mean to Extreme*, Sections 2 to 4.1. The attacker replaces the network by one linear layer
# with a summed output and reads the record from the released gradient. This page runs the attack
# through DP-SGD steps, checks each printed statement about it, and shows which are wrong.
# Statements, with our corrections, are on the {doc}`paper's page </book/papers/mean_to_extreme>`.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's photographs (paper profile)
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
# ## The attack itself
#
# The layer $f(X) = WX$ with $M$ rows and loss $\mathbf 1^\top f(X)$ has the record in every row of
# its gradient ({prf:ref}`Corollary 1 <prf-mean_to_extreme-cor1>`). A step of DP-SGD clips that gradient to norm
# $C$ and adds noise; the attacker averages the rows and divides by the clipping factor. The result
# should be $\mathcal N(X, \sigma^2\lVert X\rVert^2 I)$, whatever $C$ is.

# %%
import numpy as np
import torch

from reconrisk import DPSGD
from reconrisk.attacks import known_scale, observe

record = torch.rand(64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
run = DPSGD(0.3, max_grad_norm=float(record.norm()) / 2)
update = observe(record.expand(4000, -1), run, torch.Generator().manual_seed(2))
noise = (known_scale(update) - record).numpy()
by_hand = noise.std() / (0.3 * np.linalg.norm(record))
print(f"noise over sigma ||X||, by hand: {by_hand:.2f}")

# %% tags=["exhibit:mean_to_extreme/alg_cor1_attack"]
from companion.papers.mean_to_extreme import alg_cor1_attack

tables = alg_cor1_attack.measure(study)
print(f"noise over sigma ||X||, in the exhibit: {tables['clipping']['std over theory'][0]:.2f}")
study.judge(alg_cor1_attack, tables)

# %% [markdown]
# ## Without the scale
#
# Why the clipping factor must be known or estimated ({prf:ref}`Proposition B.1 <prf-mean_to_extreme-propB1>`): two
# clipped records of one direction release the same distribution, and dividing noisy weight
# gradients by noisy bias gradients gives ratios without moments.

# %% tags=["exhibit:mean_to_extreme/propB1"]
from companion.papers.mean_to_extreme import propB1

tables = propB1.measure(study)
study.judge(propB1, tables)

# %% [markdown]
# ## How low the variance goes
#
# More rows give more copies of the record to average, but a longer gradient and hence more clipping
# ({prf:ref}`Proposition B.2 <prf-mean_to_extreme-propB2>`). The variance tends to
# $\sigma^2\lVert X\rVert^2$ from above. If the layer keeps its bias, the limit is
# $\sigma^2(\lVert X\rVert^2 + 1)$. Other components need not cost the attacker
# anything: a branch that is fed
# $X - \tfrac12$ lowers the variance.

# %% tags=["exhibit:mean_to_extreme/propB2"]
from companion.papers.mean_to_extreme import propB2

tables = propB2.measure(study)
study.judge(propB2, tables)

# %% [markdown]
# ## How many rows it takes
#
# {prf:ref}`Proposition 1 <prf-mean_to_extreme-prop1>` prints a threshold on $M$ that lacks a square. At the printed
# value the variance is still $C/\lVert X\rVert$ times too large.

# %% tags=["exhibit:mean_to_extreme/prop1"]
from companion.papers.mean_to_extreme import prop1

tables = prop1.measure(study)
display(prop1.draw(tables))
study.judge(prop1, tables)

# %% [markdown]
# ## Figure 1: too few rows and enough
#
# The paper's own setting: $\sigma = 5\cdot10^{-4}$, $C = 5000$, $N = 150{,}528$. The layer with a
# thousand rows has 150 million weights; its gradient is computed, clipped and noised in full.

# %%
import numpy as np
import torch

from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

# with one row nothing is clipped, and every picture of this size carries the same noise
grey = torch.full((1, 224 * 224 * 3), 0.5)
run = DPSGD(5e-4, max_grad_norm=5e3)
rebuilt = known_scale(observe(grey, run, torch.Generator().manual_seed(1), rows=1))
by_hand = np.sqrt(metrics.mse(grey.numpy()[0], rebuilt.numpy()[0]))
print(f"noise per pixel at M = 1, by hand: {by_hand:.1f}")

# %% tags=["exhibit:mean_to_extreme/fig1"]
from companion.papers.mean_to_extreme import fig1

tables = fig1.measure(study)
print(f"noise per pixel at M = 1, in the figure: {tables['errors']['MSE'][0] ** 0.5:.1f}")
display(fig1.draw(tables))
study.judge(fig1, tables)

# %% [markdown]
# ## Is the estimator efficient?
#
# {prf:ref}`Lemma B.1 <prf-mean_to_extreme-lemB1>` assumes that the noise does not depend on the
# record. It does: its standard deviation is $\sigma\lVert X\rVert$, which carries information as
# well.

# %% tags=["exhibit:mean_to_extreme/lemB1"]
from companion.papers.mean_to_extreme import lemB1

tables = lemB1.measure(study)
study.judge(lemB1, tables)

# %% [markdown]
# ## Expected error
#
# {prf:ref}`Proposition 2 <prf-mean_to_extreme-prop2>`: the estimator is unbiased with expected MSE
# $\sigma^2\lVert X\rVert^2$, and an older bound from Rényi privacy lies far below it. It is not the
# unbiased one of least variance: who knows the scale knows the norm, and two unbiased estimators
# that use it vary less.

# %% tags=["exhibit:mean_to_extreme/prop2"]
from companion.papers.mean_to_extreme import prop2

tables = prop2.measure(study)
study.judge(prop2, tables)

# %% [markdown]
# ## The best achievable reconstruction?
#
# {prf:ref}`Theorem 1 <prf-mean_to_extreme-thm1>` calls the estimator the best achievable one. Four
# other reconstructions of the same MNIST images from the same gradients show that it is not.

# %% tags=["exhibit:mean_to_extreme/thm1"]
from companion.papers.mean_to_extreme import thm1

tables = thm1.measure(study)
study.judge(thm1, tables)

# %% [markdown]
# ## The best architecture?
#
# {prf:ref}`Corollary 1 <prf-mean_to_extreme-cor1>` says that no other network gives an unbiased estimator of lower
# variance. A fixed offset in front of the layer does.

# %% tags=["exhibit:mean_to_extreme/cor1"]
from companion.papers.mean_to_extreme import cor1

tables = cor1.measure(study)
study.judge(cor1, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** Someone reads Figure 1 and lowers $C$ from 5,000 to 1 to make the attack harder, with the same $\sigma$. How
# large is the noise per pixel of the *one-row* copy now?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for clipping in (5e3, 1.0):
    run = DPSGD(5e-4, max_grad_norm=clipping)
    rebuilt = known_scale(observe(grey, run, torch.Generator().manual_seed(1), rows=1))
    noise = float((rebuilt - grey).std())
    print(
        f"C = {clipping:g}: {noise:.2f} per pixel, of which sigma ||X|| is {5e-4 * grey.norm():.2f}"
    )
print("the smaller C helps: the noise shrinks with C, and the picture is scaled back")

# %% [markdown]
# **Change.** Add Laplace noise of the same variance instead of Gaussian noise. Is the mean of the rows still the estimator to
# take?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
rows = np.random.default_rng(1).laplace(scale=0.5**0.5, size=(1000, 1000))  # variance one
spread = {"mean": rows.mean(axis=0).var(), "median": np.median(rows, axis=0).var()}
print(f"median over mean, variance of the error: {spread['median'] / spread['mean']:.1f}")
print("the mean is best for normal noise only; under Laplace noise the median needs half the rows")

# %% [markdown]
# **Prove.** A fixed offset $c$ lowers the variance to $\sigma^2\lVert X-c\rVert^2$. Which $c$ is best on average over records of mean $\mu$ and
# covariance $\Sigma$, and what error does it leave?

# %% [markdown]
# ```{dropdown} Solution
# For every $c$, $\mathbb E\lVert X-c\rVert^2=\mathbb E\lVert X-\mu\rVert^2+\lVert\mu-c\rVert^2$, since the mixed term
# $2\,\mathbb E(X-\mu)^\top(\mu-c)$ is zero. So $c=\mu$ is best and leaves $\sigma^2\operatorname{tr}\Sigma$ on average, where
# $\hat X$ has $\sigma^2(\operatorname{tr}\Sigma+\lVert\mu\rVert^2)$: what all records have in common costs the attacker nothing.
# Grey, $c=\frac12$, helps exactly if $\lVert\mu-\frac12\rVert<\lVert\mu\rVert$.
# ```
