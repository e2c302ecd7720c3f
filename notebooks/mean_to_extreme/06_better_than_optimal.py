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
# At the end of this page you know which estimators beat the “optimal” copy and by how much, what
# knowledge each of them needs, and which bounds hold for all of them.
#
# {prf:ref}`Theorem 1 <prf-mean_to_extreme-thm1>` calls $\hat X$ the best reconstruction. Four
# standard estimators beat it, some of them at every record and with no more knowledge than the paper
# grants. The statements about *any* reconstruction therefore need to be replaced; this page says by
# what.

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
# ## Better reconstructions, measured
#
# - **Shrunken**, $\hat X/(1+N\sigma^2)$: because the noise grows with the record's own norm, one
#   fixed factor is best for all records. Needs $\sigma$ and $N$.
# - **James-Stein**: needs the noise's standard deviation, which follows from the known scale.
# - **Clipped** to the range of the values: needs the range.
# - **Offset**: feed $X - c$ instead of $X$. Needs a typical value $c$, and one more fixed layer; a
#   grey $c = 1/2$ suits photographs and not MNIST, whose images are mostly black.

# %%
import numpy as np
import torch
from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe, shrink

records = np.random.default_rng(1).random((2000, 64))
sigma = 0.3
run = DPSGD(sigma, max_grad_norm=0.1)
update = observe(torch.as_tensor(records), run, torch.Generator().manual_seed(1))
errors = metrics.mse(records, shrink(known_scale(update), sigma).numpy())
unbiased = sigma**2 * (records**2).sum(axis=1)  # the MSE of X_hat
print(f"by hand: {errors.sum() / unbiased.sum():.2f}")

# %% tags=["exhibit:beyond/estimators"]
from companion.papers.beyond import estimators

tables = estimators.measure(study)
own = tables["ratios"].query("data == 'synthetic, N = 64' and sigma == 0.3")
row = own.set_index("reconstruction").loc["shrunken"]
print(f"in the figure: {row['ratio']:.2f} measured, {row['theory']:.2f} expected")
display(estimators.draw(tables))
study.judge(estimators, tables)

# %% [markdown]
# ## Every network, in nats
#
# Of the linear layer's copy no use is better at every record of one norm than
# {prf:ref}`the scaled direction <prf-beyond-sphere>`, as {ref}`Proposition 3 <exhibit-mean_to_extreme-prop3>` measures. But
# that layer is one choice of a server that may send any network. Whatever it sends, the noisy
# gradient is a function of the record, of length at most $C$, plus Gaussian noise: a Gaussian channel,
# which carries at most $1/(2\sigma^2)$ nats a step ({prf:ref}`our own statement <prf-beyond-any-network>`).
# No reconstruction beats the error that rate-distortion theory allows at that many nats. Look for three
# things: where the linear layer carries less than it could (left), how its error is near the floor under
# heavy noise and far from it under little noise (middle), and how the floor depends on the law of the
# records (right).

# %%
import numpy as np
from reconrisk import bounds

dimension = 784
sigma = np.sqrt(0.5 / dimension)  # one nat for each value
nats = 1 / (2 * sigma**2)
floor = np.exp(-2 * nats / dimension) / (2 * np.pi * np.e)
linear = bounds.expected_mse_shrunk(dimension, sigma, np.sqrt(dimension / 12))
print(f"by hand: {nats:.0f} nats, an MSE of {floor:.6f} or more; linear layer {linear:.6f}")

# %% tags=["exhibit:beyond/any_network"]
from companion.papers.beyond import any_network

tables = any_network.measure(study)
row = tables["floors"].query("`nats per value` == 1").iloc[0]
print(
    f"in the figure: {row['every network']:.0f} nats, {row['floor']:.6f}; "
    f"linear layer {row['linear layer']:.6f}"
)
display(any_network.draw(tables))
study.judge(any_network, tables)

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

# %%
import numpy as np
import torch
from reconrisk import DPSGD, datasets, metrics
from reconrisk.attacks import observe, with_estimated_scale

records = datasets.classified("MNIST-5000", split="all").inputs[:200].astype(float)
norms, sigma = np.linalg.norm(records, axis=1), 0.001
run, generator = DPSGD(sigma, max_grad_norm=1e-3), torch.Generator().manual_seed(1)
scale = 5.29 / np.median(norms)  # a ||X|| = N^(1/4)
update = observe(torch.as_tensor(records), run, generator, rows=4, bias=True, input_scale=scale)
ratio = metrics.mse(records, with_estimated_scale(update).numpy()) / (sigma * norms) ** 2
print(f"by hand: {ratio.mean():.2f}")

# %% tags=["exhibit:beyond/unknown_scale"]
from companion.papers.beyond import unknown_scale

tables = unknown_scale.measure(study)
row = tables["price"].query("sigma == 0.001 and `a ||X||` == 5.29").iloc[0]
print(f"in the figure: {row['first order']:.2f}")
display(unknown_scale.draw(tables))
study.judge(unknown_scale, tables)

# %% [markdown]
# ## A layer that sends bits
#
# So far the layer was linear. But an attacker who may choose the architecture may let the network
# compute anything in front of the last layer: with $f(X) = W\varphi(X)$ and a summed loss the
# gradient is $\varphi(X)$, and DP-SGD bounds its length alone. Four such $\varphi$, at the same
# clipping norm and noise, in real DP-SGD steps:
#
# - **bits**: threshold units emit the eight bits of every value as $\pm a_j$. The energies $a_j^2$
#   follow from the noise alone ({prf:ref}`how <prf-beyond-bits>`), and no more is known of a picture
#   than its format;
# - **coded bits**: the same bits through a polar code, with a proven bound on the chance that any
#   of them is wrong;
# - **transform coefficients** of the picture, quantised and coded. This uses a prior: their
#   variances over *other* photographs;
# - the same coefficients, **linear**: so one sees what the prior is worth, and what the code adds.
#
# In the first row, at Figure 1's noise, the linear copy is grainy; the coded one
# is not a good copy but the original, to the last bit. In the rows below, at noises of our
# Figure 6, single bits fail once a value's energy $1/(N\sigma^2)$ falls below one. At 0.004 the code
# errs more, since it leaves out what it cannot carry without error. With a prior both layers still keep
# the dog visible at $\sigma = 0.004$, the code with some 20,000 bits for the whole picture; at 0.03 the
# linear one is the better.

# %%
import numpy as np
import torch
from reconrisk import DPSGD, datasets
from reconrisk.attacks import bit_energies, coded_attack, expected_mse_of_bits

photograph = np.round(255 * datasets.pictures(224, 1)[0]) / 255
sigma = 5e-4
energies = bit_energies(1 / (photograph.size * sigma**2))
print(f"by hand: {expected_mse_of_bits(energies, photograph):.2e} expected of single bits")
record = torch.as_tensor(photograph.reshape(1, -1), dtype=torch.float32)
copy, code = coded_attack(record, DPSGD(sigma), torch.Generator().manual_seed(1))
wrong = ((255 * copy).round() != (255 * record).round()).sum()
print(f"with a code: {wrong} of {record.numel()} values wrong, chance {code.error_bound:.0e}")

# %% tags=["exhibit:beyond/bit_layer"]
from companion.papers.beyond import bit_layer

tables = bit_layer.measure(study)
own = tables["errors"].query("picture == 0 and sigma == 0.0005").set_index("layer")
print(f"in the table: {own.loc['bits', 'expected MSE']:.2e} expected of single bits")
print(f"with a code: {own.loc['coded', 'wrong values']:.0f} values wrong")
display(bit_layer.draw(tables))
study.judge(bit_layer, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** Up to what noise could *any* layer send all eight bits of every value of the photograph? How far is the noise of the last
# exhibit from it?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
bits = 8 * photograph.size
limit = (1 / (2 * np.log(2) * bits)) ** 0.5  # 1 / (2 sigma^2) nats for so many bits
print(f"sigma = {limit:.1e} for {bits:,} bits")
print(f"at sigma = {sigma:g} they take {100 * (sigma / limit) ** 2:.0f} per cent of the capacity")

# %% [markdown]
# **Change.** The offset $c=\frac12$ does not suit MNIST. Take the mean of other digits. What is then left of the error of $\hat X$?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
digits = datasets.classified("MNIST-5000", split="all").inputs.astype(float)
records, others = digits[:200], digits[200:]
plain = np.sum(records**2, axis=1).mean()  # in units of sigma^2
for name, offset in (("grey", 0.5), ("mean of others", others.mean(axis=0))):
    share = np.sum((records - offset) ** 2, axis=1).mean() / plain
    print(f"offset {name}: {share:.2f} of the error of X_hat, without any bias")
print("what all digits have in common need not be sent")

# %% [markdown]
# **Prove.** Whatever closed convex set is known to hold the record (values in [0, 1], a bounded total variation): projecting a copy onto
# it never raises the error, whatever the noise.

# %% [markdown]
# ```{dropdown} Solution
# Let $y$ be the copy, $p$ its projection onto the set $K$, and $x\in K$ the record. For every $t\in[0,1]$ the point $p+t(x-p)$ is in
# $K$ and not nearer to $y$ than $p$: $\lVert y-p\rVert^2\le\lVert y-p\rVert^2-2t\,(y-p)^\top(x-p)+t^2\lVert x-p\rVert^2$, so
# $(y-p)^\top(x-p)\le0$ as $t\to0$. Hence
# $\lVert y-x\rVert^2=\lVert y-p\rVert^2+2\,(y-p)^\top(p-x)+\lVert p-x\rVert^2\ge\lVert p-x\rVert^2$, in every single draw. The
# clipped copy is the case $K=[0,1]^N$.
# ```
