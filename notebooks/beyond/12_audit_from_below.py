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
# # From below
#
# A bound from above is worth what its proof and its code are worth. An audit comes from the other side: it attacks a real run, counts how often it is right, and rules
# out every guarantee under which that would be too lucky. What lies between audit and bound is all that is unknown. At the end of this page you can audit a run
# of your own, know what one run can show and what it cannot, and catch a run that forgot its noise.
#
# The theory is on the page {doc}`../../book/papers/beyond_runs`: {prf:ref}`the audit of one run <prf-beyond-audit>`.

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
# ## Canaries
#
# A *canary* is a record that the auditor puts into the data to look for it afterwards. Ours are dots beyond the margin of MNIST's images, each in a pixel of its own that no
# image uses: the gradients of two of them are nearly orthogonal, and all are longer than the clipping norm. There are two games. *In or out*: a coin decides whether
# a canary is among the data. *One of ten*: it is, and a die decides its label. The attacker sees every release of the run, scores each canary by its likelihood, and
# guesses for the surest ones. Thousands of canaries fit into one run {cite:p}`steinke2023privacy`.
#
# How many right guesses are too many? If the run is $\varepsilon$-private, each guess is right with a probability of at most
# $e^\varepsilon/(e^\varepsilon+1)$, *whatever the other canaries are*. So the count is at most binomial, and Clopper and Pearson's limit is a bound on $\varepsilon$.
# Under Gaussian noise single guesses can be much better than that, and the whole trade-off curve says how often {cite:p}`mahloujifar2024auditing`. By hand, for
# 2,000 canaries of which 200 are guessed, 181 rightly:

# %%
from reconrisk import DPSGD, bounds, privacy

right, guesses, canaries = 181, 200, 2000
mu = privacy.audit_gaussian(right, guesses, canaries=canaries)
any_mechanism = privacy.audit_epsilon(right, guesses, 1e-5, canaries=canaries)
print(f"not mu-Gaussian private for mu below {mu:.3f}, with 95% confidence;")
print(f"then epsilon >= {privacy.epsilon(DPSGD(1 / mu), 1e-5).lower:.3f} at delta = 1e-5;")
print(f"whatever the mechanism: epsilon >= {any_mechanism:.3f}")
claim = DPSGD(noise_multiplier=5.0, steps=10)  # mu = 0.63
chance = bounds.audit_claim(claim, right, guesses, canaries=canaries)
print(f"if the noise multiplier were 5 in 10 steps, so many are right with p <= {chance:.4f}")

# %% [markdown]
# ## Runs between bound and audit
#
# We train linear classifiers with full batches, so that a run is one Gaussian release with $\mu=\sqrt T/\sigma$ and the bound from above is exact. Each noise is audited
# four times: from one run by this library in either game, from one run by Opacus, and from a thousand small runs with a canary and a thousand without. How many guesses
# are made is fixed beforehand (2, 10 and 33 per cent of the canaries, which share the risk of 5 per cent).

# %% tags=["exhibit:beyond/audit_from_below"]
from companion.papers.beyond import audit_from_below

tables = audit_from_below.measure(study)
tables.show()
display(audit_from_below.draw(tables))
study.judge(audit_from_below, tables)

# %% [markdown]
# ## What it says
#
# **Nothing crosses.** No audit exceeds a bound, here or in Opacus' runs, whose accountant reports more than the certified value.
#
# **One run sees about half**, with this number of canaries and these shares of guesses. This is no weakness of the attack, which is the best one: the audit
# allows for every mechanism with the same curve, also one in which all canaries are guessed rightly together or not at all. More canaries,
# of which only the surest are guessed, show more. Independent runs leave no room for such ties: what remains is what Clopper and Pearson
# leave, and the measured success with ten candidates is nearly that of the best attack.
#
# **A family helps.** Who knows that the noise is Gaussian gets more epsilon from the same guesses than who allows for any mechanism. The same holds for sampled batches of a known rate:
# {py:func}`~reconrisk.bounds.audit_noise` says how much noise such a run can have at most.
#
# **Broken runs are found.** A run without noise or without clipping is caught at once. Half of the noise shows with full batches; with sampled ones it is at
# the edge of what 2,000 canaries show; the recorded run has 8,000, and finds it.
#
# **What is assumed.** The secrets are drawn independently, and the number of guesses is fixed before the run. The attacker here sees all releases; an attacker who sees only
# the final model certifies less, and what that attacker certifies holds as well.

# %% [markdown]
# ## Try it
#
# **Compute.** All of 50 guesses about 1,000 canaries are right. Why do 50 runs with one guess each prove more than one run with 50?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
one_run = privacy.audit_epsilon(50, 50, 1e-5, canaries=1000)
print(f"one run: epsilon >= {one_run:.2f} (any mechanism), ", end="")
print(f"mu >= {privacy.audit_gaussian(50, 50, canaries=1000):.2f} (Gaussian)")
print(f"25 runs with and 25 without: mu >= {privacy.audit_gaussian_many_runs(25, 25, 0, 25):.2f}")
print(f"50 records named, one of ten: success >= {bounds.audit_rero(50, 50):.2f}, whatever it is")

# %% [markdown]
# **Change.** Choose the number of guesses *after* seeing which were right, without paying for it, and audit releases that say nothing at all. How often is the "95%"
# bound wrong?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
import numpy as np

rng, choices, runs = np.random.default_rng(0), [20, 40, 80, 160, 320], 300
honest = best = 0
for _ in range(runs):
    hits = np.cumsum(rng.integers(2, size=320))  # pure guessing
    counts = [int(hits[n - 1]) for n in choices]
    best += any(privacy.audit_epsilon(w, n) > 0 for w, n in zip(counts, choices, strict=True))
    honest += privacy.audit_epsilon(counts, choices) > 0
print("chosen afterwards, wrong in more than 5% of runs:", best > 0.05 * runs)
print("all five declared, in at most 5%:", honest <= 0.05 * runs)

# %% [markdown]
# **Prove.** A mechanism is $\varepsilon$-private, each of $m$ canaries is one of $k$ candidates with equal chances, independently. Then the number of right guesses is
# stochastically at most binomial with success probability $e^\varepsilon/(e^\varepsilon+k-1)$, although the guesses may depend on one another.

# %% [markdown]
# ```{dropdown} Solution
# Fix the release $y$ and the secrets of all canaries but one. Bayes' rule gives that one's candidate $j$ the probability $p_j/\sum_lp_l$ with $p_l$ the likelihood of $y$
# if it is $l$, and $p_l\ge e^{-\varepsilon}p_j$ for all $l$: it is at most $1/(1+(k-1)e^{-\varepsilon})$. So, given $y$ and whether the guesses before were right, the
# next guess is right with at most this probability. Compare one guess after the other with independent coins of this probability, on the same uniform draws: the coins
# show at least as many heads.
# ```
