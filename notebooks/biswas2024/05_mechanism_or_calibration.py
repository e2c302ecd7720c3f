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
# $\varepsilon$ ({ref}`Table IV <exhibit-biswas2024-table4>`), and they release gradients that point
# in very different directions. Here the two are compared by how well the released gradient points
# along the true one; then capacity, $\varepsilon$ and this cosine are compared as orders of the
# risk of reconstruction; and the last section asks what a batch allows without any noise. With
# bundled data the handwritten digits stand in for MNIST and grey patches of photographs for
# Fashion-MNIST.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (MNIST and FashionMNIST in the paper profile)
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
# ## At equal cosine
#
# Both mechanisms favour no direction across the true gradient, so that one random number determines
# the direction they release, its cosine with the true one ({prf:ref}`Equal cosine, equal direction
# <prf-beyond-directions>`). At equal means of that number the two laws are at most 0.029 apart in
# total variation, whatever the mean; the published attack uses nothing but the direction. So
# neither accuracy nor reconstruction should tell the mechanisms apart, and over four orders of
# magnitude of noise they do not: one curve. The paper's pairs lie far apart on it, and that is all
# that its comparison shows. Besides, the printed reconstructions are farther from the pictures than
# the mean picture of their class, for which the labels suffice.

# %%
from reconrisk import privacy

print(f"by hand: {privacy.vmf_mean_cosine(13_700, 75.0):.6f}")  # of VMF noise at kappa = 75

# %% tags=["exhibit:beyond/mechanism_or_calibration"]
from companion.papers.beyond import mechanism_or_calibration

tables = mechanism_or_calibration.measure(study)
row = tables["printed pairs"].query("kappa == 75").iloc[0]
print(f"in the figure: {row['VMF']:.6f}, of the Gaussian noise printed beside it far more")
display(mechanism_or_calibration.draw(tables))
study.judge(mechanism_or_calibration, tables)

# %% [markdown]
# ## What orders the risk?
#
# The paper's thesis is that Bayes' capacity orders the risk of reconstruction across mechanisms and
# $\varepsilon$ does not ({ref}`Figure 4 <exhibit-biswas2024-fig4>`). At its pairs this is so, and
# at truly equal $\varepsilon$ as well. But there $\varepsilon$ cannot order anything, because it is
# equal. At equal capacity it is capacity that cannot; there $\varepsilon$ orders nearly everything,
# and Gaussian noise protects better in every pair. The cosine orders all three.

# %%
from reconrisk import bounds

# the Gaussian of sigma = 1.23 on batches of 128, by Theorem 5
print(f"by hand: {bounds.bayes_capacity_gaussian(13_700, 1.23 / 128, 3**0.5):,.0f} nats")

# %% tags=["exhibit:beyond/fair_order"]
from companion.papers.beyond import fair_order

tables = fair_order.measure(study)
row = tables["equal capacity"].query("sigma == 1.23 and n == 128").iloc[0]
print(f"in the figure: {row['log capacity']:,.0f} nats, VMF noise at kappa = {row['kappa']:,.0f}")
display(fair_order.draw(tables))
study.judge(fair_order, tables)

# %% [markdown]
# ## What a batch allows
#
# The network has 13,700 weights; a batch of 128 has 32,768 pixels. Yet the published attack does
# not fail at small batches for lack of information: the rows of the first layer's gradient are
# combinations of the records, and within their span only $n^2$ numbers are unknown.
# {func}`reconrisk.attacks.span_attack` finds them, in double precision and without noise.
# {func}`reconrisk.attacks.gaussian_prior_attack` adds prior knowledge of digits.

# %%
import torch
from reconrisk.attacks import span_attack
from reconrisk.models import SigmoidNetwork
from reconrisk.training import mean_gradient

generator = torch.Generator().manual_seed(1)
weights = SigmoidNetwork((256, 50, 15, 10)).initialise(generator, 1, torch.float64)
records, guess = torch.randn((2, 1, 4, 256), generator=generator, dtype=torch.float64)
labels = torch.randint(10, (1, 4), generator=generator)
gradient = mean_gradient(weights, records, labels)
found = span_attack(weights, gradient, labels, 0.3 * guess, iterations=100).inputs
print(f"by hand: four records are found exactly: {bool((found - records).square().mean() < 1e-6)}")

# %% tags=["exhibit:beyond/batch_limits"]
from companion.papers.beyond import batch_limits

tables = batch_limits.measure(study)
own = tables["errors"].query("noise == 0 and n == 4").set_index("attack")
exactly = own.loc["least squares in the span", "least"] < 1e-6
print(f"in the figure: some batch of four is: {exactly}")
display(batch_limits.draw(tables))
study.judge(batch_limits, tables)
