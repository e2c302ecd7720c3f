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
# # The prior-aware attack
#
# Hayes et al., Sections 3.4, 4.2 and 4.3, Appendices A, F and G. The attacker knows all training
# records but one, sees every privatised gradient and has $n$ candidates, one of which is the record.
# Which one is it? {prf:ref}`Corollary 4 <prf-hayes2023-cor4>` bounds how often any attack can be
# right. Here the attacks are run: every trial draws a prior and a target, trains a model on it by
# DP-SGD, and lets the attacker look. The paper trains on MNIST; the quick profile trains the same
# network on small handwritten digits.

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
# ## Three scores
#
# ### Algorithm 2: the sum
#
# Subtract the known records' clipped gradients from every privatised gradient; the residual is noise,
# and the target's clipped gradient where it took part. {prf:ref}`Algorithm 2 <prf-hayes2023-alg2>`
# sums each candidate's inner products with it. For the target such a product is normal with mean
# $C^2$, for another candidate its mean is smaller, and the paper calls it about zero if gradients are
# orthogonal. On images of one class they are not: that, and geometry, is why the attack stays below
# the bound. Even orthogonal gradients do not reach it, as
# {prf:ref}`the exact success <prf-beyond-bayes>` shows.

# %%
import torch
from sklearn.datasets import load_digits

from reconrisk import DPSGD, privacy
from reconrisk.attacks import prior_aware_attack
from reconrisk.models import Classifier

digits, draws = load_digits(), torch.Generator().manual_seed(0)
order = torch.randperm(1797, generator=draws)
x = torch.as_tensor(digits.data, dtype=torch.float32)[order] / 16
y = torch.as_tensor(digits.target)[order]
run = DPSGD(privacy.noise_for_epsilon(10, 1e-5, steps=100), steps=100, max_grad_norm=0.1)
known, candidates = (x[:499], y[:499]), (x[499:1099], y[499:1099])
guesses = prior_aware_attack(
    Classifier(64, 10),
    run,
    *known,
    *candidates,
    prior_size=10,
    trials=60,
    learning_rate=5.0,
    generator=draws,
)
right = guesses.correct("sum").double()
print(f"by hand: {right.mean():.1f}")

# %% tags=["exhibit:hayes2023/alg2"]
from companion.papers.hayes2023 import alg2

tables = alg2.measure(study)
row = tables["trained"].query("epsilon == 10").iloc[0]
error = (0.25 / len(right) + 0.25 / row["trials"]) ** 0.5
agree = abs(row["success"] - float(right.mean())) < 4 * error
print(f"in the figure: {row['success']:.1f} (within 4 standard errors: {agree})")
display(alg2.draw(tables))
study.judge(alg2, tables)

# %% [markdown]
# ### Algorithm 3: the largest inner products
#
# Under sub-sampling the target takes part in a share $q$ of the steps only, and most inner products
# are noise. {prf:ref}`Algorithm 3 <prf-hayes2023-alg3>` keeps each candidate's $qT$ largest ones.

# %%
from reconrisk import DPSGD, bounds, privacy

sigma = privacy.noise_for_epsilon(32, 1e-5, sampling_rate=0.02, steps=400)
bound = bounds.rero(DPSGD(sigma, sampling_rate=0.02, steps=400), 1 / 10).upper
print(f"by hand: bound {bound:.4f}")

# %% tags=["exhibit:hayes2023/alg3"]
from companion.papers.hayes2023 import alg3

tables = alg3.measure(study)
row = tables["trained"].query("epsilon == 32 and score == 'top'").iloc[0]
print(f"in the figure: bound {row['bound']:.4f}, Algorithm 3 {row['success']:.1f}")
display(alg3.draw(tables))
study.judge(alg3, tables)

# %% [markdown]
# ### Appendix G: the likelihood
#
# Given the steps before, the residual of a privatised gradient is a mixture of two normal laws, so its
# likelihood is known and the best possible score with it
# ({prf:ref}`Appendix G <prf-hayes2023-appG_attack>`). The printed formula has a sign wrong and cannot
# work in as many dimensions as a network has; and a prior enters a logarithm as a logarithm. Put
# right, the score also needs no gradient to be clipped, because it subtracts half of each squared
# norm: what the paper's Appendix K takes for a limit of any attack is one of the sum.

# %%
import numpy as np

from reconrisk import privacy
from reconrisk.models import Classifier

q, steps, size = 0.1, 100, Classifier(64, 10).parameter_count
sigma = privacy.noise_for_epsilon(32, 1e-5, sampling_rate=q, steps=steps)
# the printed exponent is minus the squared length of the noise, in every coordinate of the network
noise = sigma**2 * np.random.default_rng(0).chisquare(size, (steps, 10))
scores = np.log1p(-q + q * np.exp(-(noise + noise) / (2 * sigma**2))).sum(axis=0)
print(f"by hand: {len(set(scores))} score for ten candidates, success as printed {1 / 10:.1f}")

# %% tags=["exhibit:hayes2023/appG_attack"]
from companion.papers.hayes2023 import appG_attack

tables = appG_attack.measure(study)
row = tables["scores"].query("run == 'sub-sampled' and score == 'as printed'").iloc[0]
print(f"in the figure: success as printed {row['success']:.1f}")
display(appG_attack.draw(tables))
study.judge(appG_attack, tables)

# %% [markdown]
# ## Figure 3: the size of the prior
#
# More candidates are harder to tell apart. One trial with many candidates also says whether it would
# have been right with fewer, so that each curve rests on one set of trials; and trials can share a
# trajectory: the gradients along one training run already say how alike the candidates are. Where
# both were run they agree. They cannot where a target is a good part of the batch and the noise is
# small: with a handful of known records the trajectory depends on the target, and the shortcut is too
# optimistic.
#
# The paper chose its learning rates by accuracy and does not print them. It also reports that with
# $C = 0.1$ every gradient is clipped (Figure 13). Here that holds up to a learning rate of about 5,
# which is used for the attacks; the accuracy is measured for larger ones too.

# %%
from reconrisk import DPSGD, bounds, privacy

sigma = privacy.noise_for_epsilon(10, 1e-5, steps=100)
bound = bounds.rero(DPSGD(sigma, steps=100), 1 / 64).upper
best = bounds.bayes_success(100**0.5 / sigma, 64)  # candidates whose gradients are orthogonal
print(f"by hand: bound {bound:.4f}, gap {bound - best:.4f}")

# %% tags=["exhibit:hayes2023/fig3"]
from companion.papers.hayes2023 import fig3

tables = fig3.measure(study)
row = tables["curve"].query("epsilon == 10 and n == 64").iloc[0]
print(f"in the figure: bound {row['bound']:.4f}, gap {row['gap']:.4f}")
display(fig3.draw(tables))
study.judge(fig3, tables)

# %% [markdown]
# ## Figure 4: mini-batches
#
# The paper's improved attack is indeed far better than the plain one where $\varepsilon$ is large. At
# small $\varepsilon$ it is worse: the $qT$ largest of many noisy values are mostly noise. The
# likelihood weighs every step by how likely the target took part, and is behind neither.

# %%
import numpy as np

from reconrisk import privacy

q, steps = 0.02, 1000
sigma = privacy.noise_for_epsilon(8, 1e-5, sampling_rate=q, steps=steps)
draws = np.random.default_rng(0)
products = sigma * draws.standard_normal((400, steps, 10))  # of 400 trials with ten candidates
products[..., 0] += draws.random((400, steps)) < q  # the first is the target: it takes part or not
largest = np.partition(products, -round(q * steps), axis=1)[:, -round(q * steps) :]
right = largest.sum(axis=1).argmax(axis=1) == 0
print(f"by hand: Algorithm 3 on orthogonal gradients {right.mean():.2f}")

# %% tags=["exhibit:hayes2023/fig4"]
from companion.papers.hayes2023 import fig4

tables = fig4.measure(study)
row = tables["simulated"].query("epsilon == 8").iloc[0]
error = (0.25 / len(right) + row["error"] ** 2) ** 0.5
agree = abs(row["top"] - right.mean()) < 4 * error
print(f"in the figure: {row['top']:.2f} (within 4 standard errors: {agree})")
display(fig4.draw(tables))
study.judge(fig4, tables)
