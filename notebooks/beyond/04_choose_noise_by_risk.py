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
# # Choose noise by risk
#
# At the end of this page you can choose the noise of a run from the risk that you accept instead of
# from an epsilon, and say what that noise costs.
#
# Epsilon is a means to an end. If you want to limit the chance that an attacker picks the right record out of ten, set that
# limit and compute the noise from it. {func}`reconrisk.risk.least_noise` finds the least noise at which one entry of the report
# meets a limit.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (paper profile)

# %% [markdown]
# ## The run, except for its noise

# %%
from reconrisk import risk

run = risk.training_run(noise_multiplier=1.0, batch_size=256, dataset_size=60_000, epochs=15)
record = risk.record(dimension=784, data_range=1.0, data_norm=9.2, picture=True)
print(f"q = {run.sampling_rate:.5f}, T = {run.steps}")

# %% [markdown]
# ## Four limits
#
# One on epsilon, as usual; one on the success with ten candidates; one on the success with a thousand; and one on the error of
# an attacker without a prior, which must be at least the mean square of a pixel.

# %%
limits = {
    "epsilon at most 8": ("epsilon", 8.0, None),
    "one of ten found at most one time in four": ("rero", 0.25, 10),
    "one of a thousand at most one time in a hundred": ("rero", 0.01, 1000),
    "prior-free MSE at least 9.2^2/784": ("mse", 9.2**2 / 784, None),
}
found = {
    name: risk.least_noise(kind, limit, run, record, at=at)
    for name, (kind, limit, at) in limits.items()
}
for name, least in found.items():
    print(f"{name:<50} sigma = {least.noise_multiplier:.3f}")

# %% [markdown]
# ## All of them
#
# The largest of the four noise multipliers meets all limits, because every entry falls as the noise grows. Look at the report
# at that noise before you use it.

# %%
sigma = max(least.noise_multiplier for least in found.values())
chosen = risk.training_run(noise_multiplier=sigma, batch_size=256, dataset_size=60_000, epochs=15)
report = risk.assess(chosen, record, risk.questions(prior_sizes=(10, 1000)))
for key in ("epsilon", "rero[prior_size=10]", "rero[prior_size=1000]", "mse", "psnr", "ncc"):
    print(f"{key:<25} {report[key].value:.3g}")

# %% [markdown]
# ## What noise costs
#
# Whether the limit on ten candidates needs less noise than an epsilon of eight depends on the sampling rate and the number of
# steps ({ref}`Iso-risk <exhibit-beyond-iso_risk>`). What it costs in accuracy, only training shows: here a small network on
# small digits, eight runs at each noise.

# %%
import torch

from reconrisk import DPSGD
from reconrisk.models import Classifier
from reconrisk import datasets
from reconrisk.training import accuracy, train_many

train, test = (datasets.classified("digits", split=part) for part in ("train", "test"))
inputs, labels = (torch.as_tensor(part) for part in (train.inputs, train.labels))
unseen = torch.as_tensor(test.inputs), torch.as_tensor(test.labels)
classifier = Classifier(64, 10, 10)
rates = {}
for noise in (0.5, 2.0, 8.0):
    models = train_many(
        classifier,
        DPSGD(noise, sampling_rate=0.1, steps=100),
        inputs[1:],
        labels[1:],
        inputs[:1].expand(8, -1),
        labels[:1].expand(8),
        learning_rate=1.0,
        generator=torch.Generator().manual_seed(seed),
    )
    rates[noise] = float(accuracy(models, *unseen).mean())
print("accuracy falls with the noise:", rates[0.5] > rates[2.0] > rates[8.0])
print({noise: round(rate, 1) for noise, rate in rates.items()})

# %% [markdown]
# ## Try it
#
# **Compute.** A colleague trains with the noise that limits an attacker with ten candidates to one success in four. Which $\varepsilon$ do they report?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from reconrisk import privacy

sigma = found["one of ten found at most one time in four"].noise_multiplier
same = DPSGD(sigma, sampling_rate=run.sampling_rate, steps=run.steps)
print(f"sigma = {sigma:.3f}, epsilon = {privacy.epsilon(same, 1e-5).upper:.1f} at delta = 1e-5")
print(f"the noise for epsilon = 8 would be {found['epsilon at most 8'].noise_multiplier:.3f}")

# %% [markdown]
# **Change.** Train for 60 epochs instead of 15. How much more noise does the limit on ten candidates ask for, and how much the one on the error of a
# prior-free attacker?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
longer = risk.training_run(noise_multiplier=1.0, batch_size=256, dataset_size=60_000, epochs=60)
for name in ("one of ten found at most one time in four", "prior-free MSE at least 9.2^2/784"):
    kind, limit, at = limits[name]
    again = risk.least_noise(kind, limit, longer, record, at=at).noise_multiplier
    print(f"{name}: {again / found[name].noise_multiplier:.1f} times as much")
print("who knows the steps averages four times as many copies; who does not gains less from them")

# %% [markdown]
# **Prove.** The certified success falls as the noise grows: no attacker gains from noise that is added to what they see.

# %% [markdown]
# ```{dropdown} Solution
# Success is bounded by the best test between the two laws that dominate a run: for each step, $\mathcal N(0,\sigma^2)$ without the record, and the mixture
# of $\mathcal N(0,\sigma^2)$ and $\mathcal N(1,\sigma^2)$ with it, all steps independent. Let $\sigma'>\sigma$. Adding independent $\mathcal N(0,\sigma'^2-\sigma^2)$
# to every step turns both laws for $\sigma$ into those for $\sigma'$. So every test at $\sigma'$ is also a test at $\sigma$, a randomised one, with the same
# two error rates: the best test at $\sigma$ is at least as good, and the bound at least as large.
# ```
