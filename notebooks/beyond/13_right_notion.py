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
# # What the attacker knew already
#
# Reconstruction robustness compares an attack with a blind guess: if the best blind guess is right with
# probability $\kappa$, no attack on a release succeeds with a probability above $\gamma(\kappa)$. It has been
# argued that this fails for realistic attackers, who know a label, half of the record or an older release
# {cite:p}`guerra2026understanding`, and, by others, that one trade-off curve is the right object after all
# {cite:p}`kulynych2025unifying,swanberg2025unified`. (Of these three works we could read the abstracts only.)
# At the end of this page you can say which assumption such an attacker breaks, which bound holds
# nevertheless, and that two opposite gradients attain it.
#
# The theory is on the page {doc}`../../book/papers/beyond_notions`: {prf:ref}`with knowledge <prf-beyond-knowledge>`, {prf:ref}`with unequal secrets <prf-beyond-secrets>`.

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
# ## A counter-example, and what it shows
#
# A record is one of a hundred: fifty pairs, and within a pair the gradients are opposite. A blind guess finds it once in a hundred times. An attacker who knows the pair
# needs the release for one bit only, and gets it with probability $\Phi(\mu)$. By hand, for one release with $\mu=1$:

# %%
import numpy as np

from reconrisk import DPSGD, bounds

run = DPSGD(noise_multiplier=1.0)
joint = np.kron(np.eye(50), [[0.01, 0.01]])  # knowledge (the pair) by secret (the record)
attack = bounds.bayes_success_two(1.0, 0.5)  # adds nothing to the pair but the sign
print(f"bound at the prior without the pair: {bounds.rero(run, 0.01).upper:.4f}")
print(f"attack of one who knows the pair:    {attack:.4f}")
print(f"bound at that knowledge:             {bounds.rero_given(run, joint):.4f}")

# %% [markdown]
# The theorem is right, and does not speak of this attacker: its prior is what is believed *before the release*, and here that is one half. Whoever puts in the frequency of records in
# the population has put in another attacker. So every kind of knowledge needs its own bound, and none of them needs a new notion:
#
# | the attacker has | the bound that holds | function |
# | --- | --- | --- |
# | something drawn with the record (label, part, group) | mean of $\gamma(\kappa(a))$ | {py:func}`~reconrisk.bounds.rero_given` |
# | an earlier release about it | $\gamma$ of both releases together | {py:func}`~reconrisk.bounds.rero` of a list |
# | copies of it among the data | $\gamma$ of a group | {py:class}`~reconrisk.privacy.Group` |
# | secrets of unequal probability, or near matches | weights and curve together | {py:func}`~reconrisk.bounds.rero_secrets` |

# %% tags=["exhibit:beyond/right_notion"]
from companion.papers.beyond import right_notion

tables = right_notion.measure(study)
tables.show("kinds", "images", "secrets", "summaries")
display(right_notion.draw(tables))
study.judge(right_notion, tables)

# %% [markdown]
# ## What it says
#
# **The bound breaks at the wrong prior only.** With much noise, knowing a digit's label or its lower half names it far more often than the bound at the old prior allows. At
# the prior that includes the knowledge it holds. Attacks on runs with a secret label attain it, where the label's two values have opposite gradients;
# digits on a list stay below it.
#
# **A copy is not knowledge.** If the data hold the record twice, the release is another one: it moves by two clipping norms. No prior repairs that; group privacy does.
#
# **Unequal secrets are safer than their likeliest.** $\gamma(\kappa)$ with the probability of the likeliest secret allows an attacker who has guessed that one to be right
# about the others as well. That cannot be: without the record, the chances of all guesses add up to one. The bound with all weights is a third to two thirds lower, and attained for two.
#
# **The advantage needs no prior.** Over the best guess with the same knowledge nobody gains more than the total variation. That makes it a good headline and a poor
# measure of harm: to name one record in five thousand ten times as often as by chance is an advantage of 0.002.
#
# **One number.** A single $\mu$ is nearly as good as the curve if it is chosen above it {cite:p}`gomez2025gaussian`; the limit of many steps is not above it. The closed forms for
# the advantage in membership and in telling an attribute's value {cite:p}`cherubin2024closed` come with a
# remainder that is above one here. Without it the form for membership promises up to a half less than is
# true, that for an attribute, where noise is little, up to a third less than an attack gains.

# %% [markdown]
# ## Try it
#
# **Compute.** A four-digit code is 1234 with probability 0.11, 1111 with 0.06, and anything else equally likely. What does one release with $\mu=1$ give away at most?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
codes = np.full(10_000, 0.83 / 9998)
codes[:2] = 0.11, 0.06
print(f"from the likeliest code: {bounds.rero(run, 0.11).upper:.3f}")
print(f"from all weights:        {bounds.rero_secrets(run, codes):.3f}")

# %% [markdown]
# **Change.** Let the attacker know the pair only sometimes: it is told with probability $r$, else it knows nothing. Which bound holds then, and is it the mean of the two?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for told in (0.0, 0.1, 1.0):
    both = np.vstack([told * joint, (1 - told) * joint.sum(axis=0, keepdims=True)])
    found = bounds.rero_given(run, both)
    mean = told * bounds.rero(run, 0.5).upper + (1 - told) * bounds.rero(run, 0.01).upper
    print(f"told with probability {told:g}: {found:.4f}; mean of the two: {mean:.4f}")

# %% [markdown]
# **Prove.** For an attacker with any knowledge $A$, $\mathbb E\,\gamma(\kappa(A))\le\gamma(\mathbb E\,\kappa(A))$, and the gain over the best blind guess is at most $\sup_\kappa(\gamma(\kappa)-\kappa)$.
# When is the first an equality?

# %% [markdown]
# ```{dropdown} Solution
# $\gamma$ is concave: Jensen. Equality holds if $\kappa(A)$ is constant, or if $\gamma$ is linear on its values. The gain is $\mathbb E[\gamma(\kappa(A))-\kappa(A)]$, a mean of numbers that are at
# most the supremum, which is the total variation: a test with level $\kappa$ and power $\gamma(\kappa)$ separates the two laws by $\gamma(\kappa)-\kappa$, and the best such test by the total variation.
# ```
