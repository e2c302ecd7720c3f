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
# # A learnt prior
#
# An attacker need not hold a list with your record. Pictures like it are enough, and a network that has learnt to
# clean noisy pictures. At the end of this page you know how much a small diffusion model, trained in minutes, takes from
# paper A's release, what the best attack would take, and what becomes of the model on pictures that it has not learnt.
#
# The release is $\hat X=X+\sigma\lVert X\rVert\xi$: a noisy picture. The best estimate of $X$ is the posterior mean
# $\mathrm E[X\mid\hat X]$, and a network trained to undo noise of any strength estimates just that. From it follows the *score*,
# the gradient of the log density of noisy pictures {cite:p}`vincent2011connection`, with which a diffusion model *draws* from the posterior
# {cite:p}`karras2022elucidating,ho2020denoising`.

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
# ## A denoiser by hand
#
# Train a small one for a few seconds on two thousand digits, and compare it with the linear filter on digits that neither has seen. At this noise,
# $\sigma=0.1$, the "optimal" row mean errs by 13 times as much as the mean image.

# %%
import torch

from reconrisk import attacks, datasets
from reconrisk.convnets import Denoiser, train_denoiser

digits = torch.as_tensor(datasets.classified("MNIST-5000", None, "all").inputs)
learnt, records, sigma = digits[:2000].float(), digits[4000:4200], 0.1
generator = torch.Generator().manual_seed(1)
small = Denoiser(generator, width=8)
train_denoiser(small, learnt.reshape(-1, 1, 28, 28), generator=generator, steps=150, batch_size=64)
noise = torch.randn(records.shape, generator=generator, dtype=records.dtype)
release = records + sigma * records.norm(dim=1, keepdim=True) * noise
cleaned = attacks.denoise(release, attacks.noise_of(release, sigma), small)
filtered = attacks.wiener_filter(release, sigma, attacks.second_moments(learnt.numpy()))
for name, found in {"release": release, "filter": filtered, "denoiser": cleaned}.items():
    print(f"{name}: MSE {float((found - records).square().mean()):.2f}")

# %% [markdown]
# ## Trained in minutes
#
# Seconds are not enough: the small network does not reach the filter. Minutes are.
#
# The exhibit's denoiser has 120,000 weights and was trained once, in a recorded run, on 55,000 images of MNIST
# that are not attacked; every run of this page reads its weights.
# Six attackers see the same copies $\hat X$, and nothing else. Read the rows of pictures from left to right: the filter blurs, the denoiser
# decides, and the draw is a clean digit, and often the wrong one where the release says little.
# A draw of twenty steps errs by 1.6 times as much as the estimate; an exact one, of many more steps, by twice as much.
#
# On garments the same network sees digits in the noise.

# %% tags=["exhibit:beyond/learnt_prior"]
from companion.papers.beyond import learnt_prior

tables = learnt_prior.measure(study)
display(learnt_prior.draw(tables))
study.judge(learnt_prior, tables)

# %% [markdown]
# ## On all gradients of a run
#
# Paper C's attacker sees every privatised gradient of a run, subtracts the known records, and searches for an image that fits what is left
# ({prf:ref}`eq. (1) <prf-hayes2023-alg_gradient_based>`). The search is not needed. The first layer's
# gradient is the image times the derivatives in the layer's outputs. A guess of the image gives these; then all steps together
# are *one* release of the image in normal noise of known size. A denoiser cleans it, and the result is the
# next guess; two turns are enough. By hand, on one run at $\varepsilon=300$:

# %%
from companion.papers.beyond import prior_on_run
from reconrisk import DPSGD, privacy
from reconrisk.models import Classifier
from reconrisk.training import record_trajectories

mnist, draws = datasets.classified("MNIST-5000", split="all"), torch.Generator().manual_seed(0)
x, y = torch.as_tensor(mnist.inputs), torch.as_tensor(mnist.labels)
targets, known = slice(4000, 4004), slice(0, 299)
run = DPSGD(privacy.noise_for_epsilon(300, 1e-5, steps=100), steps=100, max_grad_norm=0.1)
given = (Classifier(784, 10), run, x[known], y[known], x[targets], y[targets])
seen = record_trajectories(*given, learning_rate=2.0, generator=draws)
guess = attacks.rank_one_start(seen.residuals)
denoiser = learnt_prior.recorded_denoiser()
for turn in (1, 2):
    noisy, std = attacks.first_layer_release(seen.weights, seen.residuals, run, guess, y[targets])
    guess = attacks.denoise(noisy, std, denoiser)
    error = float((guess - x[targets]).square().mean())
    print(f"turn {turn}: noise of {float(std.mean()):.1f} a pixel, MSE {error:.2f}")
print(f"the mean image: MSE {float((x[:4000].mean(dim=0) - x[targets]).square().mean()):.2f}")

# %% tags=["exhibit:beyond/prior_on_run"]
run_tables = prior_on_run.measure(study)
display(prior_on_run.draw(run_tables))
study.judge(prior_on_run, run_tables)

# %% [markdown]
# At $\varepsilon=100$ the search returns noise, worse than the mean image, and the denoiser a digit that can be read; at 10 neither has anything. So "reconstructions fail below
# an epsilon of some hundreds" is a statement about attackers without a prior; one with a prior needs about a tenth of it.
#
# Is that the network's merit or the label's, which every attacker here is told? At 10, in the recorded run, the mean of other digits of that label, which looks at no gradient, beats all who make no use of the label, the
# denoiser among them; a filter with the label's covariance gains 6% on it, the list 13%. At 100 that filter does as well as the denoiser. At 1,000 learning pays.
#
# How near to the best is that? The red line has the record on a list of a thousand digits and takes the posterior mean, from the exact
# likelihood of all gradients: no attack on digits of that list errs less. At 10 it is left with most of what the label leaves: there the noise hides the digit. At 100 it
# has named it, where the denoiser leaves two fifths: the gradients hold the answer, and the network lacks the list.

# %% [markdown]
# The error of the row mean, which papers A and B bound, says what an
# attacker without a prior can do. With pictures of the same kind and ten minutes an attacker is better by an
# order of magnitude, and no bound on the row mean tells by how much. Two things *do* bind that
# attacker: the posterior over the true prior, of which a list with the record is the extreme, and paper C's
# bound, which holds whatever the attacker has learnt.
#
# ## Try it
#
# **Compute.** At which of the exhibit's noises is the denoiser's gain over the linear filter largest?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
own = (
    tables["pairs"]
    .query("data == 'digits' and other == 'mean and covariance'")
    .set_index("sigma")["ratio"]
)
print(f"at sigma = {own.idxmin():g}, where its error is {own.min():.2f} of the filter's")

# %% [markdown]
# **Change.** The attacker misjudges the noise by a factor of two, up or down. Which mistake costs the small denoiser more?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
std = attacks.noise_of(release, sigma)
wrong = {f: attacks.denoise(release, f * std, small) for f in (0.5, 1.0, 2.0)}
errors = {f: float((e - records).square().mean()) for f, e in wrong.items()}
worse = "too little" if errors[0.5] > errors[2.0] else "too much"
print(
    f"assuming {worse} noise costs more; the right noise is best: {min(errors, key=errors.get) == 1}"
)

# %% [markdown]
# **Prove.** Why does a draw from the posterior err by exactly twice the mean squared error of the posterior mean?

# %% [markdown]
# ```{dropdown} Solution
# Given $\hat X$, the record $X$ and the draw $X'$ are independent with the same law, whose mean is $m$. So
# $\mathrm E\lVert X'-X\rVert^2=\mathrm E\lVert X'-m\rVert^2+\mathrm E\lVert X-m\rVert^2$, twice the error of $m$.
# A picture that convinces costs a factor of two; the best picture by the mean squared error is a blurred one.
# ```
