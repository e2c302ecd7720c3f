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
# At the end of this page you know whether the mechanism or its calibration makes one noise protect
# better than the other, and which number orders the risk.
#
# Biswas et al. find Gaussian noise more useful and von Mises-Fisher (VMF) noise more protective at
# what they take to be one $\varepsilon$ (Section VII). Their pairs of settings do not have one
# $\varepsilon$ ({ref}`Table IV <exhibit-biswas2024-table4>`), and they release gradients that point
# in very different directions. Here the two are compared by how well the released gradient points
# along the true one; then capacity, $\varepsilon$ and this cosine are compared as orders of the
# risk of reconstruction; and the last section asks what a batch allows without any noise. Quick runs
# use 5,000 of MNIST's images and twenty of Fashion-MNIST's, the latter in batches of 16 alone.

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
# Both mechanisms are symmetric around the true gradient, so the direction that they release is described by
# one random number, its cosine with the true one ({prf:ref}`Equal cosine, equal direction
# <prf-beyond-directions>`). At equal mean cosine the two laws differ by at most 0.029 in
# total variation, and the published attack uses nothing but the direction. So neither accuracy nor reconstruction
# should tell the mechanisms apart, and over four orders of magnitude of noise they do not: all points lie on one curve. The paper's pairs lie far apart on it. At equal
# $\varepsilon$, then, von Mises-Fisher noise does protect better, as the paper says, and costs more
# accuracy. *At matched utility* it protects better, too, where the network is untrained: its cosine is
# the same at every step, while that of Gaussian noise is large at first, where gradients are long,
# and smaller later ({ref}`D-032 <claim-d-032>`). Networks are trained here from PyTorch's first
# weights and without weight decay; those attacked have Glorot's, and none was attacked after
# training. Besides, the printed copies are worse than the mean picture of their class, for which the labels suffice.
#
# **How the cosines are matched.** A mean cosine $c$ comes first, and each mechanism gets the noise that
# has it. For von Mises-Fisher noise that is one concentration, whatever the gradient:
# {func}`reconrisk.privacy.vmf_concentration`. Gaussian noise of standard deviation $s$ on each of the $p$
# entries of a gradient of length $r$ leaves a cosine of about $r/\sqrt{r^2+ps^2}$; so $s$ is solved for
# at the median length of the clipped gradients under attack. Both then run on the same batches, networks and
# first candidates. The axis shows the cosines that were measured.

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

# %% [markdown]
# ## Try it
#
# **Compute.** Which concentration points as well along one record's gradient of length one as Gaussian
# noise of $\sigma=1.23$ does? What does it cost over 1,407 steps, and what does the Gaussian?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from reconrisk import DPSGD

p, delta, q, steps = 13_700, 1 / 60_000, 128 / 60_000, 1407
cosine = float(bounds.direction_cosine_gaussian(p, 1.23))
kappa = float(privacy.vmf_concentration(p, cosine))
vmf = privacy.vmf_epsilon(kappa, p, delta, q, steps).upper
gaussian = privacy.epsilon(DPSGD(1.23, q, steps), delta).upper
print(f"cosine {cosine:.4f} at kappa = {kappa:.0f}: epsilon {vmf:.1f}, Gaussian {gaussian:.2f}")
print("one direction, two prices: VMF noise pays for reversing the gradient, twice the distance")

# %% [markdown]
# **Change.** {func}`reconrisk.attacks.span_attack` above sees the exact gradient. Add Gaussian noise of
# 0.1%, 1% and 10% of the gradient's length, layer by layer. How large is the error? The records have
# variance 1. Is that the noise of DP-SGD?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
noise = {n: torch.randn(g.shape, generator=generator, dtype=g.dtype) for n, g in gradient.items()}
for share in (0.001, 0.01, 0.1):
    slight = {n: g + share * g.norm() * noise[n] / noise[n].norm() for n, g in gradient.items()}
    again = span_attack(weights, slight, labels, 0.3 * guess, iterations=100).inputs
    root = float((again - records).square().mean()) ** 0.5
    print(f"{share:.1%} of noise: root mean squared error {root / share:.1f} times as much")
print(f"sigma = 1.23 on four records: at least {100 * 1.23 * 13_700**0.5 / (4 * 3**0.5):,.0f}%")

# %% [markdown]
# **Prove.** At equal mean cosine $c$ the two directions are about $0.121\,c^2(1-c^2)$ apart in total
# variation. An attack sees the directions of $T$ releases; each gradient may depend on the directions
# before it. By how much can its success differ between the mechanisms? What is that for one record's
# gradient at $\sigma=1.23$ ($c=0.0069$) and $T=1{,}407$?

# %% [markdown]
# ```{dropdown} Solution
# Replace one release after the other, the last first. Given the directions before it, the two laws of
# the replaced direction are at most $v=0.121\,c^2(1-c^2)$ apart, and all that follows is a function of
# it and of further noise, which cannot increase the distance. So each replacement changes the
# success by at most $v$, and all $T$ by at most $Tv$. Here $v\approx5.8\cdot10^{-6}$ and
# $Tv\approx0.008$: over a whole training the success of no attack on directions differs by a
# percentage point. At $c^2=\frac12$ they are $0.029$ apart, and the same argument is void from about 35
# releases on.
# ```
