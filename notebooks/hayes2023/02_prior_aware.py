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
# At the end of this page you know how often an attacker who knows all records but one names the right
# candidate, and how near that comes to what no attack can exceed.
#
# Hayes et al., Sections 3.4, 4.2 and 4.3, Appendices A, F and G. The attacker knows all training records but one, sees every privatised
# gradient, and asks which of $n$ candidates is the missing one. {prf:ref}`Corollary 4 <prf-hayes2023-cor4>` bounds how often any attack can be
# right. Here every trial draws a prior and a target, trains the
# paper's network on it by DP-SGD, and attacks the gradients; quick runs take images from 5,000 of MNIST's.
#
# A training run for every trial is expensive. Trials can *share a trajectory*: one model is trained without a target, and each
# trial adds its own to the gradients of that run and draws new noise. The weights then ignore the target. The figures show both
# kinds; {ref}`Figure 3 <exhibit-hayes2023-fig3>` says where they differ.

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
# plus the target's clipped gradient where it took part. {prf:ref}`Algorithm 2 <prf-hayes2023-alg2>`
# sums each candidate's inner products with it. For the target such a product is normal with mean
# $C^2$; for another candidate the mean is smaller, about zero if gradients are orthogonal. Those
# of images of one class are not: one reason why the attack stays below the bound. The other is that
# even with orthogonal gradients none can reach it ({prf:ref}`the exact success <prf-beyond-bayes>`).

# %%
import torch

from reconrisk import DPSGD, datasets, privacy
from reconrisk.attacks import prior_aware_attack
from reconrisk.models import Classifier

mnist, draws = datasets.classified("MNIST-5000"), torch.Generator().manual_seed(0)
order = torch.randperm(len(mnist), generator=draws)
x, y = torch.as_tensor(mnist.inputs)[order], torch.as_tensor(mnist.labels)[order]
run = DPSGD(privacy.noise_for_epsilon(10, 1e-5, steps=100), steps=100, max_grad_norm=0.1)
attack = {"prior_size": 10, "trials": 60, "learning_rate": 5.0, "generator": draws}
guesses = prior_aware_attack(
    Classifier(784, 10), run, x[:249], y[:249], x[249:849], y[249:849], **attack
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
# Under sub-sampling the target takes part in only a share $q$ of the steps, and most inner products
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
# Given the earlier steps, the residual of a privatised gradient has a mixture of two normal
# distributions. Its likelihood is therefore known, and is the best possible score
# ({prf:ref}`Appendix G <prf-hayes2023-appG_attack>`). The formula in our text of the paper has a plus
# in place of a minus and cannot work in the dimension of a network; the text may have lost the
# sign ({ref}`E-C-02 <erratum-e-c-02>`). With a prior, the logarithm of a candidate's probability must be
# added ({ref}`E-C-03 <erratum-e-c-03>`). The likelihood also loses less where gradients are not clipped,
# because it subtracts half of each squared norm: part of the lower success that the paper's Appendix K
# conjectures for every attack is due to the plain sum.

# %%
import numpy as np

from reconrisk import privacy
from reconrisk.models import Classifier

q, steps, size = 0.1, 100, Classifier(784, 10).parameter_count
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
# How much harder is it to name the target among more candidates?

# %% [markdown]
# **The signal.** In units of $C^2$ a candidate's inner product with a step's residual is $\mathcal N(1,\sigma^2)$ for the target and,
# as long as gradients are orthogonal, $\mathcal N(0,\sigma^2)$ for any other. Summed over $T$ steps the target stands out by
# $\sqrt T/\sigma$ standard deviations.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch

from reconrisk import DPSGD, bounds, datasets, privacy
from reconrisk.attacks import shared_trajectory_attack, success_by_prior_size
from reconrisk.models import Classifier
from reconrisk.training import gradient_factors

epsilon, steps = 10, 100  # change epsilon: try 4 and 32
sigma = privacy.noise_for_epsilon(epsilon, 1e-5, steps=steps)
print(f"sigma = {sigma:.2f}: the target stands out by {steps**0.5 / sigma:.1f} standard deviations")

# %% [markdown]
# **The attack** names the candidate of the largest sum. One trial with 256 candidates also tells whether the target beats the
# first $n-1$ others, for every $n$.

# %%
sizes = 2 ** np.arange(1, 9)
noise = sigma * steps**0.5 * np.random.default_rng(1).standard_normal((4000, sizes[-1]))
target, others = steps + noise[:, :1], noise[:, 1:]
named = target > np.maximum.accumulate(others, axis=1)
orthogonal = named[:, sizes - 2].mean(axis=0)
print(f"named among 2: {orthogonal[0]:.2f}; among 64: {orthogonal[5]:.2f}")

# %% [markdown]
# **The bound.** An attack that names the target among $n$ is a test that noise alone passes once in $n$ times. What the best test
# finds bounds every attack. Even with orthogonal gradients a gap is left:

# %%
bound = [bounds.rero(DPSGD(sigma, steps=steps), 1 / n).upper for n in sizes]
best = bounds.bayes_success(steps**0.5 / sigma, 64)  # the attack in infinitely many trials
print(f"by hand: bound {bound[5]:.4f}, gap {bound[5] - best:.4f}")

# %% [markdown]
# **Real gradients** are not orthogonal: here are those of digits in the paper's network.

# %%
mnist, draw = datasets.classified("MNIST-5000"), torch.Generator().manual_seed(1)
order = torch.randperm(len(mnist), generator=draw)[:700]
x, y = torch.as_tensor(mnist.inputs)[order], torch.as_tensor(mnist.labels)[order]
network = Classifier(784, 10)
inner = gradient_factors(network.initialise(draw), x, y).gram()
cosine = inner / torch.outer(inner.diag(), inner.diag()).sqrt()
same = y[:, None] == y
print(f"mean cosine in one class {cosine[same].mean():.1f}, else {cosine[~same].abs().mean():.1f}")

# %% [markdown]
# **Digits.** So wrong candidates of the target's class score nearly as much. Train with two hundred known records, and let 4,000 trials
# share two trajectories:

# %% mystnb={"image": {"alt": "Success over 2 to 256 candidates: the bound falls from 0.98 to 0.25; just below it the attack on orthogonal gradients, and lower still, with more candidates farther, the attack on digits."}}
run = DPSGD(sigma, steps=steps, max_grad_norm=0.1)
attack = {"prior_size": int(sizes[-1]), "trials": 4000, "learning_rate": 5.0, "trajectories": 2}
known, pool = (x[:200], y[:200]), (x[200:], y[200:])
guesses = shared_trajectory_attack(network, run, *known, *pool, **attack, generator=draw)
digits = success_by_prior_size(guesses, "sum", sizes.tolist()).double().mean(dim=0)

plt.figure(figsize=(5, 3), layout="constrained")
plt.plot(sizes, bound, "k-", label="bound")
plt.plot(sizes, orthogonal, "--", color="grey", label="orthogonal gradients")
plt.plot(sizes, digits, "o-", label="digits")
plt.xscale("log", base=2)
plt.gca().set(xlabel="candidates n", ylabel="success", ylim=(0, 1))
plt.legend()
plt.show()

# %% [markdown]
# The figure is this at three $\varepsilon$, with more candidates and with a model for every trial besides.
#
# Where trials of both kinds were run they agree. They would not with few known records and little noise: the trajectory then
# depends on the target, and the shortcut is too optimistic.
#
# At large $\varepsilon$ the gap between bound and attack widens with the prior, as the paper reports. At
# small $\varepsilon$ it narrows, because both vanish, while their ratio ends larger. What widens it is that images of one class
# have similar gradients.
#
# The paper does not print its learning rates, chosen by accuracy. It reports that with
# $C = 0.1$ every gradient is clipped (Figure 13). Here that holds up to a learning rate of 2, and
# nearly at 5, which the attacks use: their candidates' gradients are as long as $C$ to a hundredth. The accuracy is measured
# for larger rates too. Over 90% is reached on the training records and not on a test set; which of them the paper
# means it does not say.

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
# likelihood weights every step by the probability that the target took part, and is never worse than
# either.

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

# %% [markdown]
# ## Try it
#
# **Compute.** Images of one class have similar gradients. Let all be clipped, and let each pair of
# ten candidates have the same cosine $\rho$ at every step. At (10, 1e-5)-DP the best attack names
# about two in three if $\rho=0$. From which $\rho$ on is it right less than half of the time?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from scipy.optimize import brentq

signal = 100**0.5 / privacy.noise_for_epsilon(10, 1e-5, steps=100)
half = brentq(lambda rho: bounds.bayes_success(signal, 10, rho) - 0.5, 0, 0.99)
print(f"from rho = {half:.2f} on; at rho = 0.9: {bounds.bayes_success(signal, 10, 0.9):.2f}")
print("(the cosine acts as noise that is 1 / sqrt(1 - rho) times as large)")

# %% [markdown]
# **Change.** Algorithm 3 keeps $qT$ inner products, here 20 of 1,000. Keep fewer or more of those
# drawn for Figure 4. Can another number make up what is lost to the likelihood?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for kept in (5, 20, 80, 320, 1000):
    sums = np.partition(products, steps - kept, axis=1)[:, steps - kept :].sum(axis=1)
    print(f"{kept:4d} kept: right {np.mean(sums.argmax(axis=1) == 0):.2f} of the time")
best = bounds.bayes_success_subsampled(DPSGD(sigma, sampling_rate=q, steps=steps), 10)
print(f"the likelihood: {best:.2f}; a few times qT comes near it (standard errors 0.02)")

# %% [markdown]
# **Prove.** Two equally likely candidates have orthogonal gradients at $q=1$, one of length $C$, the
# other of length $aC$ with $0<a<1$. How often is Algorithm 2 right, how often the likelihood? Show
# that the likelihood is strictly better.

# %% [markdown]
# ```{dropdown} Solution
# Take $C=1$ and let $s_i$ be candidate $i$'s sum of inner products over $T$ steps. The noise in
# $s_1-s_2$ has the standard deviation $\sigma\sqrt{T(1+a^2)}$; the mean is $T$ if the long gradient
# took part and $-a^2T$ if the short one did. With $u=\sqrt T/(\sigma\sqrt{1+a^2})$ Algorithm 2 is right
# with probability $\frac12[\Phi(u)+\Phi(a^2u)]$: it favours the long gradient. The likelihood
# subtracts half of each squared length, which moves both means to $\pm\frac12(1+a^2)T$, and is right
# with probability $\Phi\big(\frac12(1+a^2)u\big)$. That is $\Phi$ at the mean of $u$ and $a^2u$, and
# $\Phi$ is strictly concave on positive numbers: it exceeds the mean of the two values.
# ```
