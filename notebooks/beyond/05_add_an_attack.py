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
# # Add an attack
#
# At the end of this page you have written two attacks, one with a list of candidates and one without,
# and compared each with a bound that it cannot exceed.
#
# An attack here is a function with a fixed signature; a driver trains the models, draws the hidden record and
# counts the successes. If your attack exceeds its bound, look for the mistake: first in what the attack was
# given, then in the bound.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (paper profile)

# %% [markdown]
# ## With candidates: a score
#
# {func}`reconrisk.attacks.prior_aware_attack` trains a model for every trial, scores all candidates and names the best. A score
# takes what was observed at all steps, {class}`reconrisk.attacks.StepScores`, and returns one number for each candidate. This
# one omits the steps in which a candidate fits worst, because the record was probably not sampled there.

# %%
import torch

from reconrisk import DPSGD, bounds
from reconrisk.attacks import StepScores, likelihood_score, prior_aware_attack, sum_score
from reconrisk.models import Classifier
from reconrisk import datasets


def thresholded_score(steps: StepScores, run: DPSGD) -> torch.Tensor:
    """Sum of the inner products above one half, shape (trials, candidates)."""
    return steps.inner.where(steps.inner > 0.5, 0.0).sum(dim=0)


digits = datasets.classified("digits", split="train")
inputs, labels = torch.as_tensor(digits.inputs), torch.as_tensor(digits.labels)
run = DPSGD(noise_multiplier=0.7, sampling_rate=0.2, steps=30)
guesses = prior_aware_attack(
    Classifier(64, 10, 10),
    run,
    inputs[:200],
    labels[:200],
    inputs[200:800],
    labels[200:800],
    prior_size=10,
    trials=400,
    learning_rate=1.0,
    generator=torch.Generator().manual_seed(seed),
    scores={"new": thresholded_score, "sum": sum_score, "likelihood": likelihood_score},
)

# %% [markdown]
# ### Compare it with the bound
#
# With four standard errors, as everywhere in this book.

# %%
bound = bounds.rero(run, 1 / 10).upper
best = float(bounds.bayes_success_subsampled(run, 10))
print(f"bound {bound:.2f}; orthogonal candidates, best attack {best:.2f}; guess 0.10")
for name in ("new", "sum", "likelihood"):
    success = guesses.success(name)
    error = (success * (1 - success) / 400) ** 0.5
    print(
        f"{name:<11} above a guess: {success - 4 * error > 0.1};"
        f" below the bound: {success - 4 * error < bound}"
    )
print("better than the likelihood:", guesses.success("new") > guesses.success("likelihood"))

# %% [markdown]
# It beats a guess, it stays below the bound, and it is no better than the likelihood, which is optimal
# ({prf:ref}`the theorem <prf-beyond-subsampled>` and the text before it).
#
# ## Without candidates: an estimator
#
# {func}`reconrisk.attacks.observe` takes DP-SGD steps through the server's own layer; an attack is a function of the
# observation. This one shrinks, then clips to the range of pixels.

# %%
import numpy as np

from reconrisk.attacks import Observation, clip_to_range, known_scale, observe, shrink


def shrunken_and_clipped(observation: Observation, sigma: float) -> torch.Tensor:
    """Reconstruct records (examples, N) in [0, 1]."""
    return clip_to_range(shrink(known_scale(observation), sigma))


step = DPSGD(noise_multiplier=0.1)
records = inputs[:1000].double()
seen = observe(records, step, torch.Generator().manual_seed(seed))
estimates = {
    "row mean": known_scale(seen),
    "new": shrunken_and_clipped(seen, step.noise_multiplier),
}
mse = {name: (x - records).square().mean(dim=1).numpy() for name, x in estimates.items()}
for name, values in mse.items():
    print(f"{name:<9} mean MSE {values.mean():.3f}")

# %% [markdown]
# ### Compare it with the bound
#
# No function of the observation has a smaller worst-case relative error than the shrunken row mean
# ({prf:ref}`prf-beyond-minimax`). The worst case is over all records; that pixels of digits are never negative is further
# knowledge, and with it the new attack may be better, and is. It cannot exceed paper C's bound, here with the prior success of a
# ball among digits.

# %%
from scipy.spatial.distance import cdist

exact = bounds.expected_mse(0.1, np.linalg.norm(records, axis=1)).mean()
shrunken = bounds.expected_mse_shrunk(64, 0.1, np.linalg.norm(records, axis=1)).mean()
print(f"exact for the row mean {exact:.3f}, for the shrunken one {shrunken:.3f}")
print("better than both on digits:", mse["new"].mean() < min(exact, shrunken))

radius = 0.05
distances = cdist(records, records) / 8
kappa = bounds.prior_success_ball_any_centre((distances + distances.T) / 2, radius).upper
allowed = float(bounds.rero_gaussian(0.1, kappa))
print("near misses within what is allowed:", (mse["new"] <= radius**2).mean() <= allowed)

# %% [markdown]
# ## Add it to the library
#
# Write a file in `lib/reconrisk/attacks/`, put its name into the package's list, add a row to
# `reconrisk.attacks.THREAT_MODELS` that says what the attack sees, changes and knows (the book's table of threat models is made
# from it), and a test that compares it with a bound. The next step is {doc}`06_add_a_paper`.
