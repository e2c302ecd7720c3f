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
# # Defences under attack
#
# At the end of this page you know how the defences fare against the paper's four attacks, what they
# cost in accuracy, and what is left of them when the attacker uses what a defence shows of itself.
#
# Liu et al., Section 5.2 and Appendix I. A defence is worth what it holds against the strongest attack, so the paper runs four on clients' updates
# in fifteen settings of the defences and keeps the lowest error. We run the same grid, and the analytic attack
# of {doc}`From Mean to Extreme </book/papers/mean_to_extreme>` besides.
#
# :::::{dropdown} What the quick profile scales down
# :class-container: argument
#
# The paper attacks a ResNet-18 with an extra layer of 16,384 neurons, for 10,000 iterations on a
# GPU. The quick profile attacks a small convolutional network with the same extra layer, scaled
# down, on small colour patches of photographs. Eighty iterations of a short schedule match two hundred of the published one. The network is just large enough that an undefended
# gradient determines its batch. The attacks of Tables 4, 7 and 8 and Figures 3 and 4 are the same runs; Figure 2
# shows CIFAR-10's own images. Two differences from the paper matter. The paper's network has
# about a thousand gradient entries for each unknown pixel, the small one some tens: noise and
# dropped entries average out less. And noise and clipping are absolute numbers, $\sigma_0$ from
# 0.001 to 0.1 and $C$ from 2 to 8, whose meaning depends on the gradient's norm. Both profiles keep
# them; the table below the first figure says what they amount to here.
# :::::

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
# ## Four attacks and fifteen settings
#
# ### Table 4
#
# The paper's own attack ({func}`reconrisk.attacks.proposed_attack`) weights the layers' cosines and
# matches features recovered from the wide layer's random neurons; *GradientInversion*
# ({func}`reconrisk.attacks.invert_updates`) takes one cosine over all layers; *CPA*
# ({func}`reconrisk.attacks.component_attack`) recovers the features as independent components;
# *Robbing the Fed* ({func}`reconrisk.attacks.imprint_attack`) puts a manipulated layer in front of
# the network and reads its gradient.
#
# :::::{dropdown} Which attack is strongest, and the order of the defences
# :class-container: argument
#
# Which attack is strongest depends on the defence, in print and here, but not in the same way.
# Robbing the Fed recovers a record exactly if it is alone in its bin of the manipulated layer,
# which no inversion of a deep network matches. Noise of the printed sizes prevents it as it is run
# in the table, because that layer's gradient is small. Its scale is the server's choice: with the
# head's weights ten thousand times larger the errors are below 0.06 under every printed noise (last
# table), and nothing but clipping limits them. Every "lowest error" under noise, in the table and in
# Figure 3, is measured without such a server. Under clipping the errors printed for Robbing the Fed fall as batches grow,
# although collisions become more frequent. In the recorded run, with the image prior that the paper searches,
# the proposed attack has the lowest mean in 25 of 45 settings (39 in print), which decides nothing. With a search over pixels, as in the
# quick run, eight pictures do not distinguish it from the others, except under clipping.
#
# The defences' order is not the same either. In print, dropping nine entries of ten at random leaves
# little more error than no defence, and pruning the nine smallest of ten is among the best. On
# our network it is the other way round, as one would expect: the smallest entries carry least. About
# a third of the printed errors are larger than 0.24, that of CIFAR-10's mean image at 32 pixels, which
# uses no gradient at all (though Table 7 leaves the units of the RMSE in doubt).
# :::::

# %%
import torch

from reconrisk.attacks import Knowledge, imprint_attack, imprint_thresholds, isolated_share
from reconrisk.convnets import ImprintNetwork
from reconrisk.training import client_updates

draw = torch.Generator().manual_seed(0)
pictures = torch.rand((4000, 3, 8, 8), generator=draw)
mean = torch.full((192,), 1 / 192)  # Robbing the Fed sorts pictures by their mean into 64 bins
network = ImprintNetwork(mean, imprint_thresholds(pictures.flatten(1) @ mean, 64))
batches, labels = pictures.view(500, 8, 3, 8, 8), torch.zeros((500, 8), dtype=torch.long)
released = client_updates(network, batches, labels, generator=draw)
found = imprint_attack(network, released, Knowledge(labels, (3, 8, 8))).inputs
error = torch.cdist(batches.flatten(2), found.flatten(2)).amin(dim=2) / 192**0.5
print(f"by hand: {(error < 0.01).float().mean():.1f} exact, in theory {isolated_share(8, 64):.2f}")

# %% tags=["exhibit:liu2024/table4"]
from companion.papers.liu2024 import table4

tables = table4.measure(study)
eight = tables["Robbing the Fed by batch size"].set_index("batch size").loc[8]
print(f"in the table: {eight['exact']:.1f} exact, in theory {eight['alone in a bin']:.2f}")
tables.show()
display(table4.draw(tables))
study.judge(table4, tables)

# %% [markdown]
# ### Figure 2: what they look like
#
# **What a client sends** is the gradient of a loss, here on two of CIFAR-10's images at 8 pixels a side. It has far more numbers
# than the pictures.

# %%
import matplotlib.pyplot as plt
import torch
from torch.nn.functional import avg_pool2d, cross_entropy

from reconrisk import datasets
from reconrisk.convnets import ConvNet
from reconrisk.mechanisms import Noise, Pruning
from reconrisk.training import client_updates

draw = torch.Generator().manual_seed(0)
cifar = datasets.classified("CIFAR-10-20", split="all")
pictures = avg_pool2d(torch.as_tensor(cifar.pictures()[:2].copy()).movedim(3, 1), 4)
labels = torch.as_tensor(cifar.labels[:2])
network = ConvNet(draw, side=8, channels=8, batch_norm=False)
sent = client_updates(network, pictures[None], labels[None], generator=draw).gradient
print(sum(g.numel() for g in sent.values()), "numbers for", pictures.numel(), "unknown pixels")

# %% [markdown]
# **How wrong is a guess?** The server knows network and labels, so it can compute the gradient of any guess. One minus the cosine
# with the gradient that it received is the loss.


# %%
def distance(guess, received):
    """Return one minus the cosine between a guess's gradient and the one received."""
    loss = cross_entropy(network(guess), labels)
    slopes = torch.autograd.grad(loss, list(network.parameters()), create_graph=True)
    own = torch.cat([slope.flatten() for slope in slopes])
    other = torch.cat([received[name].flatten() for name, _ in network.named_parameters()])
    return 1 - own @ other / (own.norm() * other.norm())


grey = torch.full_like(pictures, 0.5)
print(f"grey pictures: {distance(grey, sent):.1f}; the client's: {distance(pictures, sent):.1f}")

# %% [markdown]
# **The attack** starts at grey and goes downhill.


# %%
def invert(received, iterations=300):  # change it
    """Search for the pictures whose gradient points where the received one does."""
    guess = grey.clone().requires_grad_()
    optimiser = torch.optim.Adam([guess], lr=0.05)
    for _ in range(iterations):
        optimiser.zero_grad()
        distance(guess, received).backward()
        optimiser.step()
        guess.data.clamp_(0, 1)  # a pixel is between 0 and 1
    return guess.detach()


def error(found):
    """Return the RMSE, as a share of the grey pictures'."""
    return float((found - pictures).norm() / (grey - pictures).norm())


found = {"no defence": invert(sent)}
print(
    f"undefended, share of the grey pictures' error that is left: {error(found['no defence']):.1f}"
)

# %% [markdown]
# **Defences** change what is sent. This attacker does not know of them.

# %% mystnb={"image": {"alt": "Two small pictures, the client's and four reconstructions: without defence they look alike, with noise of 0.001 too, with noise of 0.01 colours are off, pruned to one entry of a hundred they are random."}}
defences = {"noise 0.001": Noise(0.001), "noise 0.01": Noise(0.01), "99% pruned": Pruning(0.99)}
for name, defence in defences.items():  # add one
    update = client_updates(network, pictures[None], labels[None], (defence,), generator=draw)
    found[name] = invert(update.gradient)
print(f"by hand: pruned, nine tenths are left: {error(found['99% pruned']) > 0.9}")

shown = {"original": pictures, **found}
figure, axes = plt.subplots(2, len(shown), figsize=(7, 3), layout="constrained")
for column, (name, batch) in zip(axes.T, shown.items(), strict=True):
    column[0].set_title(name)
    for axis, image in zip(column, batch, strict=True):
        axis.imshow(image.movedim(0, 2))
        axis.axis("off")
plt.show()

# %% [markdown]
# The figure is this on four pictures of 32 pixels, by the paper's own attack too. An error above the mean
# image's (of twenty) says nothing of the pictures. The heaviest pruning leaves 0.48 entries for each pixel value here, 16 in
# the paper's network and 2.7 in the recorded one, where gradient inversion errs by 0.11, for 0.10 undefended: too few entries
# do not explain print.

# %% tags=["exhibit:liu2024/fig2"]
from companion.papers.liu2024 import fig2

tables = fig2.measure(study)
pruned = tables["errors"].query("strength == 0.99").set_index("attack")["RMSE"]
grey = tables["references"].set_index("attack").loc["grey", "RMSE"]
print(f"in the figure: nine tenths are left: {pruned['GradientInversion'] > 0.9 * grey}")
display(fig2.draw(tables))
study.judge(fig2, tables)

# %% [markdown]
# ## With and without feature matching
#
# ### Table 7
#
# The paper's attack on all settings. At batch size 8, local steps have as large an error in print as the
# heaviest pruning, and yet Tables 4 and 5, which rank the defences, leave them out. And the table's two columns contradict each
# other. RMSE and PSNR are functions of one another, so the moments of one bound those of the other: a linear programme says
# that most printed sets of four cannot belong together, in whatever units.

# %%
import numpy as np

# RMSE .15 (two digits) and PSNR 23.69 dB are printed side by side; -20 log10 is convex
print(f"by hand: a mean PSNR of at least {-20 * np.log10(0.155):.1f} dB beside a mean RMSE of .15")

# %% tags=["exhibit:liu2024/table7"]
from companion.papers.liu2024 import table7

tables = table7.measure(study)
first = tables["both errors"].query("setting == 'None' and `batch size` == 2").iloc[0]
print(
    f"in the figure: {first['least PSNR']:.1f} to {first['most PSNR']} dB; printed {first['PSNR']}"
)
display(table7.draw(tables))
study.judge(table7, tables)

# %% [markdown]
# ### Table 8
#
# The same without feature matching. Where Table 4 has the same setting, its numbers for *GradientInversion* are these, to the
# last digit: one of the two labels is wrong, and the gain over the older attack and the gain of feature matching are one
# difference, counted twice. Without a defence Table 8 has the PSNR of Table 6 without matching, so
# that Table 4's label is the suspect. And clipping, a common factor, cannot change a cosine, yet it
# raises the errors of this table at every batch size.

# %%
errors = np.array([0.0, 1.0])  # no numbers in [0, 1] of mean m deviate more than these two
mean = 0.31
shares = np.array([1 - mean, mean])
deviation = np.sqrt(shares @ (errors - mean) ** 2)
print(f"by hand: errors of mean .31 deviate by {deviation:.2f} at most")

# %% tags=["exhibit:liu2024/table8"]
from companion.papers.liu2024 import table8

tables = table8.measure(study)
printed = tables["printed"]
worst = printed.loc[printed["RMSE sd"].idxmax()]
most = table8.largest_deviation(worst["RMSE"])
print(f"in the table: by {most:.2f} at most, {worst['RMSE sd']} is printed")
display(table8.draw(tables))
study.judge(table8, tables)

# %% [markdown]
# ### Figure 4
#
# Feature matching gains most in print where noise is light. On the small network of the quick runs
# it mostly costs. In a control on a larger network, with three random neurons for each feature (the paper has 28), features from moments ({func}`reconrisk.attacks.recover_features`), matched
# greedily as published, come back with a cosine of about 0.4 and make the pictures worse. Fitted to
# the head's gradient by least squares in the order of the labels
# ({func}`reconrisk.attacks.fit_features`) they have one of 0.999, and matching gains decibels, as it
# does with the true features.
# Recorded on CIFAR-10 with the image prior, matching gains one to three decibels under noise of 0.05 and 0.1,
# and in batches of eight most gains lie within one error.
#
# What noise of 0.001 hides at the printed size depends on what the paper does not print: the scale of the random
# neurons, and which statistics the batch norms hold. With standard normal neurons and the first statistics, the gradient of the paper's
# ResNet-18 in its residual blocks is as long as the noise (first cell); with those of twenty pictures, a hundred times as
# long: then there is nothing for matching to restore.
#
# :::::{dropdown} Clipping, and claim E-032
# :class-container: argument
#
# Clipping is a common factor, and neither a cosine nor the fit, which estimates the factor, sees it.
# So the clipped cells of Tables 7 and 8 must be those without a defence, and nearly are in Table 7
# (0.16 to 0.19 beside 0.15). In Table 8 0.19 to 0.25 stand beside 0.16, at every batch size, and what
# claim E-032 reads as a gain of matching under clipping is that difference. Clipping each tensor by
# itself would change nothing either, with a cosine for each. Clipping each picture's gradient would matter,
# and "individual model gradients" (Section 5.1) may mean that; but then Table 7 does not show it.
# :::::

# %%
from reconrisk.convnets import ResNet18, randomise_neurons

draw = torch.Generator().manual_seed(0)
pictures = torch.as_tensor(cifar.pictures().copy()).movedim(3, 1)
labels = torch.as_tensor(cifar.labels)
network = ResNet18(draw, wide=16_384).eval()  # the paper's
randomise_neurons(network, 12_288, draw)


def over_noise(sigma=0.001):
    """Return the length of the residual blocks' gradient over that of the noise."""
    sent = client_updates(network, pictures[None, :4], labels[None, :4], generator=draw).gradient
    blocks = torch.cat([g.flatten() for name, g in sent.items() if name.startswith("blocks")])
    return float(blocks.norm() / (sigma * len(blocks) ** 0.5))


print(f"first statistics: {over_noise():.0f} times the noise")
with torch.no_grad():
    network.train().absorb(network(pictures, trace=True).statistics, momentum=1.0)
network.eval()
print(f"those of twenty pictures: {round(over_noise(), -2):.0f} times")

# %%
from reconrisk.attacks import fit_features, recover_features
from reconrisk.mechanisms import Noise

draw = torch.Generator().manual_seed(0)
pictures = torch.rand((1, 4, 3, 8, 8), generator=draw)
known = Knowledge(torch.arange(4)[None], (3, 8, 8))
network = ConvNet(draw, side=8, channels=8, wide=288).eval()
randomise_neurons(network, 256, draw)
released = client_updates(network, pictures, known.labels, (Noise(0.01),), generator=draw)
count = known.labels.shape[1]
with torch.no_grad():
    true = torch.stack([network(batch, trace=True).features for batch in pictures])
fitted = fit_features(network, released, known.labels).features
moments = recover_features(network, released, count, neurons=256)
best = (torch.nn.functional.normalize(true, dim=2) @ moments.mT).abs().amax(dim=2).mean()
nearer = torch.cosine_similarity(fitted, true, dim=2).mean() > best
print(f"by hand: fitted features are nearer than those from moments: {bool(nearer)}")

# %% tags=["exhibit:liu2024/fig4"]
from companion.papers.liu2024 import fig4

tables = fig4.measure(study)
cosine = tables["control"].set_index("matched")["cosine"]
nearer = cosine[fig4.RECOVERED] > cosine[fig4.PUBLISHED]
print(f"in the control: fitted features are nearer than those from moments: {nearer}")
tables.show()
display(fig4.draw(tables))
study.judge(fig4, tables)

# %% [markdown]
# ## What protection costs
#
# ### Table 5: what a defence costs
#
# :::::{dropdown} How it is measured, and what that confirms
# :class-container: argument
#
# The utility of a defence is the training loss reached with every gradient passed through it. The paper makes
# single runs. We make several, with the same first weights and batches under every
# defence ({func}`reconrisk.training.train_under_defences`), and at two learning rates. The rates
# are ours: at the printed 0.1 this network diverges. We chose the larger rate because it shows the
# printed order, so this agreement confirms nothing. There, strong noise costs most by far. But
# the damage that noise does to the weights shrinks with the rate, and at the smaller rate the
# difference from strong pruning is nearly gone: the verdicts require both rates. Local aggregation, which
# the paper's table leaves out, costs little or nothing. Single runs, as printed, do not order the
# milder settings.
# :::::

# %%
from reconrisk.mechanisms import Noise
from reconrisk.training import train_under_defences

draw = torch.Generator().manual_seed(0)
network = ConvNet(draw, side=8, channels=8, wide=256)
labels = torch.arange(64) % 10
pictures = torch.rand((10, 3, 8, 8), generator=draw)[labels]
pictures = pictures + 0.3 * torch.randn(pictures.shape, generator=draw)
defences = [(), (Noise(0.1),), (Pruning(0.99),)]
run = train_under_defences(
    [network], pictures, labels, defences, generator=draw,
    epochs=3, batch_size=2, learning_rate=0.03,
)  # fmt: skip
print(f"by hand: noise of .1 leaves the largest loss: {run.final[:, 0].argmax() == 1}")

# %% tags=["exhibit:liu2024/table5"]
from companion.papers.liu2024 import table5

tables = table5.measure(study)
two = tables["losses"].query("`batch size` == 2 and rate == 0.03").groupby("setting")["loss"]
print(f"in the table: the largest loss is that of {two.mean().idxmax()}")
tables.show()
study.judge(table5, tables)

# %% [markdown]
# ### Figure 3: protection against utility
#
# :::::{dropdown} How pairs are counted
# :class-container: argument
#
# The paper reads from its figure that at equal loss pruning protects best. Here losses within fifteen per
# cent count as equal, and we count all pairs of pruning with another defence (table below the figure): on
# the printed numbers, on ours, against attackers who allow for the defence, and with each defence at the
# better of the two rates. In print the statement holds in most pairs; the narrower the range that counts as
# equal, the fewer pairs contradict it. In ours, dropped entries have the larger error in most pairs. But our networks
# hardly learn, so that half of all losses count as equal, where a sixth do in print: the comparison reads no loss, and
# the statement is not decided. Nor is what Appendix I says of networks that are attacked after a few epochs.
# :::::

# %%
# printed for batches of two: losses of Table 5, lowest errors of Table 4
dropped = np.array([[0.466, 0.16], [0.363, 0.16], [0.564, 0.18], [0.864, 0.18]])
pruned = np.array([[0.585, 0.16], [0.430, 0.17], [0.621, 0.20], [0.763, 0.26], [1.020, 0.27]])
equal = abs(np.log(pruned[:, None, 0] / dropped[None, :, 0])) <= np.log(1.15)
larger = equal & (pruned[:, None, 1] > dropped[None, :, 1] + 0.005)
print(f"by hand: of {equal.sum()} pairs of equal loss pruning leaves more in {larger.sum()}")

# %% tags=["exhibit:liu2024/fig3"]
from companion.papers.liu2024 import fig3

tables = fig3.measure(study)
printed = tables["printed"].query("`batch size` == 2 and defence in ['GradDrop', 'GradPrune']")
pairs = fig3.matched_pairs(printed).iloc[0]
print(f"in the figure: of {pairs['pairs']} in {pairs['pruning larger']}")
tables.show()
display(fig3.draw(tables))
study.judge(fig3, tables)

# %% [markdown]
# ## Attackers who know the defence
#
# :::::{dropdown} What these attackers see and do
# :class-container: argument
#
# The attacks above take every update for a plain gradient. But a defence shows which entries it
# removes, as zeros; the number of local steps is the server's own protocol; and the size of the
# noise is public. The same inversion is run again on the same updates, from the same first
# candidates, by an attacker who compares visible entries only and repeats the local steps; under
# noise, by one who minimises the squared distance, which is the likelihood, and weights the total
# variation by the noise's variance ({class}`~reconrisk.attacks.Knowledge`,
# {class}`~reconrisk.attacks.Objective`). Local aggregation and perhaps random entry dropout lose most of
# their apparent effect. Under pruning, which keeps the largest entries, comparing those alone helps
# only where most of the update is gone. Clipping has no effect on either attacker.
# :::::

# %%
import torch

from reconrisk.convnets import ConvNet

network = ConvNet(torch.Generator(), side=8, channels=16, wide=256)
entries = sum(w.numel() for w in network.parameters())
pixels = 2 * 3 * 8 * 8  # of two pictures
print(f"by hand, entries per pixel: {entries / pixels:.2f}, {0.01 * entries / pixels:.2f} of 1%")

# %% tags=["exhibit:beyond/aware_attackers"]
from companion.papers.beyond import aware_attackers

tables = aware_attackers.measure(study)
counts = tables["entries and unknowns"].query("`batch size` == 2").set_index("setting")
left = counts["entries per unknown"]
print(f"in the figure, entries per pixel: {left['None']:.2f}, {left['GradPrune p=0.99']:.2f} of 1%")
display(aware_attackers.draw(tables))
study.judge(aware_attackers, tables)

# %% [markdown]
# ## Hidden, or gone
#
# A large error may be due to the attack and not to the defence. Where the update's derivative in every pixel is known
# ({func}`reconrisk.training.update_jacobian`) two things do not depend on an attack. The rank says whether the visible entries
# still determine the batch: they do after clipping, local steps, and the loss of nine tenths of the
# entries; at 99 % fewer entries than pixels are left. And the information bounds the error under
# noise, for unbiased attackers (Cramér and Rao) and, if the pictures' normal law is known, for all
# (van Trees, {func}`reconrisk.bounds.van_trees_error`).
#
# :::::{dropdown} What is only hidden
# :class-container: argument
#
# Least squares on the same derivative ({func}`reconrisk.attacks.refine_updates`) then find what is
# only hidden. Started at the mean picture, with the normal law of other pictures at first, they
# find the batch (here one of two pictures) to several digits, also where 90 % of the update were
# pruned. Under the paper's strongest noise, where inversion finds noise,
# they still come close. Large networks resist only because the attack is costly; see {prf:ref}`the statement <prf-beyond-hidden>`.
# :::::

# %%
import torch

from reconrisk.convnets import ConvNet
from reconrisk.training import update_jacobian

drawn = torch.Generator().manual_seed(1)
network = ConvNet(drawn, side=8, channels=16, wide=256).double().eval()
pictures = torch.rand(2, 3, 8, 8, generator=drawn, dtype=torch.float64)
update, jacobian = update_jacobian(network, pictures, torch.tensor([0, 1]))
kept = jacobian[update.abs().argsort()[-len(update) // 10 :]]  # a tenth, the largest
ranks = [
    int(torch.linalg.matrix_rank(j.mT @ j, rtol=1e-13, hermitian=True)) for j in (jacobian, kept)
]
print(f"by hand, of {pictures.numel()} directions: {ranks[0]} determined, by a tenth {ranks[1]}")

# %% tags=["exhibit:beyond/strongest_attack"]
from companion.papers.beyond import strongest_attack

tables = strongest_attack.measure(study)
pruned = tables["ranks"].query("`batch size` == 2 and defence == 'GradPrune'").set_index("share")
rank, pixels = pruned["rank"], pruned["unknowns"].iloc[0]
print(f"in the figure, of {pixels} directions: {rank[0.0]} determined, by a tenth {rank[0.9]}")
display(strongest_attack.draw(tables))
study.judge(strongest_attack, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** How many bins does *Robbing the Fed* need so that nine records of ten are alone in theirs, in batches of 8 and of 64?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for size in (8, 64):
    bins = next(n for n in range(size, 100 * size) if isolated_share(size, n) >= 0.9)
    print(f"batches of {size}: {bins} bins, {bins / size:.1f} for each record")
print("the layer grows in proportion to the batch: a larger batch is no defence against the server")

# %% [markdown]
# **Change.** The server does not know how bright the pictures are, and places 64 thresholds evenly between 0 and 1 instead of at quantiles. How many of eight digits are alone
# in a bin?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from reconrisk import datasets

brightness = datasets.classified("MNIST-5000", split="all").inputs.mean(axis=1)
counts = np.histogram(brightness, bins=64, range=(0, 1))[0]
alone = isolated_share(8, counts / counts.sum())
print(f"{alone:.2f} with even thresholds, {isolated_share(8, 64):.2f} with quantiles")
print(
    f"{(counts > 0).sum()} of 64 bins are ever used; knowing the law of one number is worth a lot"
)

# %% [markdown]
# **Prove.** Errors in $[0,1]$ with mean $m$ have a standard deviation of at most $\sqrt{m(1-m)}$, and only errors of zero and one reach it.

# %% [markdown]
# ```{dropdown} Solution
# For $e\in[0,1]$ we have $e^2\le e$, with equality at zero and one only. So $\mathbb Ee^2\le m$, and the variance $\mathbb Ee^2-m^2$ is at most $m(1-m)$. Nothing else about
# the attack, the pictures or the defence enters. A table that prints a larger deviation beside its mean therefore has other units, or other numbers, than it says
# ({ref}`Table 8 <exhibit-liu2024-table8>`).
# ```
