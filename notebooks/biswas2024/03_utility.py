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
# # Utility of the two mechanisms
#
# At the end of this page you know which of the two mechanisms trains the better network, and what is
# left of the difference at an $\varepsilon$ that really is the same.
#
# Biswas et al. train a sigmoid network of 13,700 weights on MNIST and Fashion-MNIST, cut to 16x16
# pixels, with Gaussian noise and with von Mises-Fisher (VMF) noise of what they take to be the same
# $\varepsilon$, and find the Gaussian network better throughout. Here the two algorithms are checked line by line, and every setting is trained
# several times. Quick runs train on 4,000 of MNIST's images, too few for the printed accuracies, enough for their order; for Fashion-MNIST grey patches of photographs
# stand in, on which only their own panel is judged. Epsilons on the axes are the paper's labels, unless called certified.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (paper profile)
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
# ## The two algorithms
#
# ### Algorithm 1: Gaussian noise
#
# The listing is lost from the text at hand; the sentences about its lines say that each layer of
# each record's gradient is clipped to length one, and that the sum and its noise are divided by the
# batch size. Two points of the text are open. PyTorch's Adam adds a weight decay of 0.1 to the gradient of
# the mean loss, which the decay outweighs: every network is left guessing. With decoupled decay, or with
# a summed loss, networks train; here the decay is decoupled. And with three layers clipped one by one
# a record moves the sum by up to $\sqrt 3$. If the noise on every coordinate is $\sigma$, as Theorem 5 has
# it, the printed $\sigma$ is not the noise multiplier; if it is $\sqrt 3\,\sigma$, as Opacus adds when it
# clips by layer, then $\sigma$ is the noise multiplier.

# %%
import torch

from reconrisk.models import SigmoidNetwork
from reconrisk.training import Release, release_gradients

generator = torch.Generator().manual_seed(0)
weights = SigmoidNetwork((256, 50, 15, 10)).initialise(generator)
record, label = torch.rand(1, 256, generator=generator), torch.tensor([3])
clip = Release("clip", max_grad_norm=0.05)  # C: every layer's gradient is longer
gradient = release_gradients(weights, record, label, [clip], generator=generator)
length = sum(float(layer.square().sum()) for layer in gradient.values()) ** 0.5
print(f"by hand: a clipped gradient of length {length / 0.05:.4f} C")

# %% tags=["exhibit:biswas2024/alg1"]
from companion.papers.biswas2024 import alg1

tables = alg1.measure(study)
longest = tables["clipping"].set_index("clipped")["longest gradient over C"]
print(f"in the batch: {longest['by layer']:.4f} C")
tables.show()
study.judge(alg1, tables)

# %% [markdown]
# ### Algorithm 2: von Mises-Fisher noise
#
# The same average, all layers as one vector, is scaled to the unit sphere, and a random direction
# is drawn around it. Its length is lost. For Adam this costs nothing, because its steps do not
# depend on the length of the gradient; what matters is the angle, and at these concentrations the
# released direction is almost at a right angle to the true one.

# %%
from reconrisk import privacy

cosine = float(privacy.vmf_mean_cosine(13_700, 400.0))  # weights, kappa
print(f"by hand: mean cosine {cosine:.4f}")

# %% tags=["exhibit:biswas2024/alg2"]
from companion.papers.biswas2024 import alg2

tables = alg2.measure(study)
angle = tables["lines"].set_index("does").loc["turn by VMF(kappa): angle", "found"]
print(f"in the table: {angle}")
tables.show()
study.judge(alg2, tables)

# %% [markdown]
# ## Accuracy
#
# ### Over the paper's epsilons
#
# Gaussian noise gives the higher accuracy at every printed $\varepsilon$, as in print, and the gap falls as
# $\varepsilon$ grows: in print from $0.536$ to $0.162$ on MNIST, and from $0.299$ to $0.220$ on
# Fashion-MNIST, where it rises at first. The text gives neither the first weights nor how much noise three clipped layers
# get. Quick runs take PyTorch's weights and $\sigma$; the recorded run what comes nearest to print: Glorot's weights
# {cite:p}`glorot2010understanding` and $\sqrt 3\,\sigma$.
# [The table of readings](#over-batch-sizes-and-other-readings-of-the-training) has the others.
# Single runs with VMF noise differ by several percentage points; the paper prints one.
#
# **The data and the pairs.** Three of the paper's pairs of equal $\varepsilon$, the smallest and the largest among them.

# %%
import matplotlib.pyplot as plt
import torch

from reconrisk import datasets, privacy
from reconrisk.models import SigmoidNetwork
from reconrisk.training import Release, network_accuracy, release_gradients, train_mini_batches

sets = [datasets.classified("MNIST-5000", split=part) for part in ("train", "test")]
mean, std = float(sets[0].inputs.mean()), float(sets[0].inputs.std())
small = (datasets.grey_at(s, 16, crop=True).inputs for s in sets)
train, test = (torch.as_tensor((inputs - mean) / std) for inputs in small)
train_labels, test_labels = (torch.as_tensor(s.labels) for s in sets)
network, draw = SigmoidNetwork((256, 50, 15, 10)), torch.Generator().manual_seed(1)
pairs = {0.49: (1.23, 75.0), 7.97: (0.461, 150.0), 112.28: (0.204, 400.0)}  # sigma and kappa

# %% [markdown]
# **A step** releases the mean of a batch's clipped gradients with Gaussian noise, or a random direction around it. Adam
# forgets lengths, so compare directions: how far does each point along the mean?

# %%
(sigma, kappa), batch_size = pairs[0.49], 128  # change them: another pair, batches of 16 or 1,024
kinds = [Release("clip"), Release("gaussian", sigma), Release("vmf", kappa)]
weights = {k: w.expand(3, *w.shape) for k, w in network.initialise(draw).items()}
batch = torch.randperm(len(train), generator=draw)[:batch_size]
released = release_gradients(weights, train[batch], train_labels[batch], kinds, generator=draw)
flat = torch.cat([layer.flatten(1) for layer in released.values()], dim=1)
clean, *noisy = flat / flat.norm(dim=1, keepdim=True)
print("cosine: Gaussian {:.2f}, VMF {:.2f}".format(*(float(clean @ n) for n in noisy)))
print(f"VMF on average {float(privacy.vmf_mean_cosine(13_700, kappa)):.3f}, for every batch size")

# %% [markdown]
# Gaussian noise is divided by the batch size, VMF noise is not: a step with it is nearly at a right angle to the gradient.
#
# **Train** with all seven noises.

# %% mystnb={"image": {"alt": "Accuracy over epsilon on a logarithmic axis at three pairs: Gaussian noise from 0.8 to just below the level without noise, 0.9; VMF noise far below, from 0.1 to 0.5."}}
releases = [Release("none"), *(Release("gaussian", sigma) for sigma, _ in pairs.values())]
releases += [Release("vmf", kappa) for _, kappa in pairs.values()]
options = {"batch_size": 128, "epochs": 10, "generator": draw}
trained = train_mini_batches(network, train, train_labels, releases, **options)
none, *accuracy = network_accuracy(trained, test, test_labels).tolist()
print(f"by hand: {none:.1f} without noise, {accuracy[2]:.1f} with sigma = 0.204")

plt.figure(figsize=(5, 3), layout="constrained")
plt.axhline(none, color="grey", label="no noise")
plt.plot([*pairs], accuracy[:3], "o-", label="Gaussian")
plt.plot([*pairs], accuracy[3:], "s-", label="VMF")
plt.xscale("log")
plt.gca().set(xlabel=r"the paper's $\varepsilon$", ylabel="test accuracy", ylim=(0, 1))
plt.legend()
plt.show()

# %% [markdown]
# The figure has several runs of every setting.

# %% tags=["exhibit:biswas2024/fig2"]
from companion.papers.biswas2024 import fig2

tables = fig2.measure(study)
own = tables["accuracy"].query(f"data == '{tables.parameters.digits}'").set_index("mechanism")
none, gaussian = own.loc["none", "mean"], own.loc["Gaussian"].set_index("label").loc[400.0, "mean"]
print(f"in the figure: {none:.1f} without noise, {gaussian:.1f} with sigma = 0.204")
display(fig2.draw(tables))
study.judge(fig2, tables)

# %% [markdown]
# ### Over batch sizes, and other readings of the training
#
# In the first table every cell is the mean over our runs and the standard deviation of one run; on
# the paper's data the printed number follows in brackets. The second table trains with other
# readings of the text: the first weights, where the decay goes, how much noise three clipped layers
# get, how batches are drawn, how pixels are scaled, and which widths make 13,700 weights.
#
# With PyTorch's first weights the recorded VMF accuracies lie 0.06 to 0.07 below print at batch size 128; with Glorot's
# they agree at all sizes. Of the 128 printed accuracies, 126 then agree with ours to within the spread of
# single runs. The other two are those of the heaviest Gaussian noise in small batches of digits: ours lie
# below print. This reading was chosen because it fits; it is no prediction.
#
# The third table shows that the pairs, fitted at batch size 128, do not keep one $\varepsilon$ at any other.

# %%
from reconrisk import DPSGD

# sigma = .204 on batches of 16: three epochs of 60,000 records are 11,250 steps
epsilon = privacy.epsilon(DPSGD(0.204, 16 / 60_000, 11_250), delta=1 / 60_000)
print(f"by hand: epsilon {(epsilon.lower + epsilon.upper) / 2:.1f}")

# %% tags=["exhibit:biswas2024/table5"]
from companion.papers.biswas2024 import table5

tables = table5.measure(study)
row = tables["epsilon"].query("sigma == 0.204 and B == 16")
print(f"in the table: {row['Gaussian, certified'].item():.1f}")
tables.show()
study.judge(table5, tables)

# %% [markdown]
# ### At truly equal epsilon
#
# {ref}`Table IV <exhibit-biswas2024-table4>` composes VMF noise over three epochs and Gaussian
# noise over 1,407 steps. Here both are accounted over the steps that were run, by certified
# enclosures, and the gradient is clipped as a whole, so that $\sigma$ is the noise multiplier. The
# concentration that costs the same is smaller than the printed one at every pair, and VMF noise
# loses accuracy. Gaussian noise loses some accuracy too, because this clipping
# makes the gradient shorter by up to $\sqrt 3$ but not its noise.

# %%
from reconrisk import DPSGD, privacy

certified = privacy.epsilon(DPSGD(1.23, 128 / 60_000, 1407), 1 / 60_000)
print(f"by hand: {certified.upper:.3f}")

# %% tags=["exhibit:beyond/fair_utility"]
from companion.papers.beyond import fair_utility

tables = fair_utility.measure(study)
row = tables["pairs"].query("sigma == 1.23").iloc[0]
print(f"in the figure: {row['epsilon']:.3f}")
display(fair_utility.draw(tables))
study.judge(fair_utility, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** At $\kappa=75$ a released direction is almost at a right angle to the true gradient. If
# the weights stood still, how many releases would you average for a cosine of one half?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
one = float(privacy.vmf_mean_cosine(13_700, 75.0))
# the average has the length `one` along the truth, and across it noise of length about 1 / sqrt(n)
needed = (1 / 0.5**2 - 1) * (1 - one**2) / one**2
print(f"{needed:,.0f} releases: {needed / 1407:.0f} times the steps of the whole training")

# %% [markdown]
# **Change.** The number of records that agree. Gaussian noise of $\sigma=1.23$ is added to the sum of a
# batch, VMF noise of the same cost ($\kappa=\sqrt p/(2\sigma)$) to its direction. What is the cosine of
# the release if half a record, 1, 16 or 128 records pull the same way?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from reconrisk import bounds

p, sigma = 13_700, 1.23
for records in (0.5, 1, 16, 128):
    gaussian = float(bounds.direction_cosine_gaussian(p, sigma / records))
    print(f"{records:5g} records: cosine {gaussian:.4f} under Gaussian noise")
vmf = float(privacy.vmf_mean_cosine(p, p**0.5 / (2 * sigma)))
print(f"any number: {vmf:.4f} under VMF noise, as if it were half a record")

# %% [markdown]
# **Prove.** VMF noise loses the length of the gradient. Show that Adam (without its small constant)
# makes the same steps if *all* gradients are multiplied by one positive number. Does it if every
# step's gradient has a factor of its own?

# %% [markdown]
# ```{dropdown} Solution
# Adam divides $\hat m_t$, a weighted mean of the gradients so far, by the root of $\hat v_t$, a weighted
# mean of their squares. One factor $c$ for all multiplies the first by $c$ and the second by $c^2$: the
# quotient stays. With factors of their own it does not. Take the gradients 1, 1, and the rates 0.9 and
# 0.999: the second step's quotient is 1. Multiply the second gradient by 10, and it is
# $\frac{0.09+1}{0.19}\big/\sqrt{\frac{0.000999+0.1}{0.001999}}\approx0.81$. So scaling every release to
# the sphere is free for Adam only as long as the true gradient keeps its length.
# ```
