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
# # How good can the attack be?
#
# At the end of this page you know how much of the gap between the attack and the bound could be
# closed by a better attack, and how much by no attack at all.
#
# Hayes et al. find their prior-aware attack "nearly identical" to their bound, with a gap that widens
# for larger $\varepsilon$ and priors. Is the gap due to the attack or to the bound? In the Gaussian
# reduction the success of the best possible attack can be computed, and so can its distance from the
# bound. Statements and proofs are on the {doc}`companion's page </book/papers/beyond_lists>`.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data sets (paper profile)
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
# ## Full batch
#
# For equicorrelated gradients the best attack is {prf:ref}`Algorithm 2 <prf-hayes2023-alg2>`, and its success is one
# integral ({prf:ref}`prf-beyond-bayes`). Two opposite gradients attain the bound
# ({prf:ref}`prf-beyond-attained`); below $\kappa = \tfrac12$ nothing does ({prf:ref}`prf-beyond-not-attained`).
# With orthogonal gradients no attack at all comes near the bound at moderate $\varepsilon$. Whether the
# gap widens or narrows with the prior depends on $\varepsilon$.

# %%
from reconrisk import bounds, privacy

sigma = privacy.noise_for_epsilon(10.0, 1e-5, steps=100)
best = bounds.bayes_success(100**0.5 / sigma, 8)  # eight orthogonal candidates
print(f"by hand: {best:.5f}, at most {bounds.rero_gaussian(sigma, 1 / 8, steps=100):.5f}")

# %% tags=["exhibit:beyond/bayes_success"]
from companion.papers.beyond import bayes_success

tables = bayes_success.measure(study)
row = tables["by prior size"].query("epsilon == 10 and n == 8").iloc[0]
print(f"in the figure: {row['orthogonal']:.5f}, at most {row['bound']:.5f}")
display(bayes_success.draw(tables))
study.judge(bayes_success, tables)

# %% [markdown]
# ## Sub-sampling
#
# Under sub-sampling the attacks differ ({ref}`Figure 4 <exhibit-hayes2023-fig4>`). The likelihood is the best one and its success is known without
# simulation ({prf:ref}`prf-beyond-subsampled`). {prf:ref}`Algorithm 3 <prf-hayes2023-alg3>`, the paper's improvement,
# is worse than the plain {prf:ref}`Algorithm 2 <prf-hayes2023-alg2>` where the noise is large: the top $qT$ of so
# many inner products are mostly noise.

# %%
from reconrisk import DPSGD, bounds, privacy

sigma = privacy.noise_for_epsilon(4.0, 1e-5, sampling_rate=0.02, steps=1000)
print(f"by hand: {bounds.bayes_success_subsampled(DPSGD(sigma, 0.02, 1000), 10):.4f}")

# %% [markdown]
# ## A bound that depends on the candidates
#
# Corollary 4 depends only on the number of the candidates. If their gradients are always close together, an
# attack learns less: only the sum over the steps of the largest squared distance counts
# ({prf:ref}`prf-beyond-distances`). Below, many networks are trained for each list of candidates. One half gives
# a limit on the distances; the share of the other half that exceeds it is added to the bound, with its
# confidence limit.

# %%
from reconrisk import bounds, privacy

# ten candidates whose gradients are orthogonal, epsilon = 10
sigma = privacy.noise_for_epsilon(10.0, 1e-5, steps=100)
print(f"by hand: {bounds.bayes_success(100**0.5 / sigma, 10):.5f}")

# %% tags=["exhibit:beyond/data_bound"]
from companion.papers.beyond import data_bound

tables = data_bound.measure(study)
row = tables["success"].query("epsilon == 10 and n == 10").iloc[0]
closer = row["data bound"] < row["orthogonal"]
print(f"in the figure: {row['orthogonal']:.5f}; the bound from the data is below: {closer}")
display(data_bound.draw(tables))
study.judge(data_bound, tables)

# %% [markdown]
# ## Very small priors
#
# Without candidates, an attack succeeds if a share $\rho$ of the pixels is right. The prior success is then a
# binomial tail ({prf:ref}`prf-beyond-pixels`), not the printed power, and the bound changes accordingly.

# %%
import numpy as np
from reconrisk import bounds, privacy

prior = bounds.log_prior_success_pixels(784, 0.6, probability=1 / 4)
sigma = privacy.noise_for_epsilon(1.0, 1e-5, steps=100)
bound = bounds.rero_gaussian(sigma, log_prior_success=prior, steps=100, log=True)
print(f"by hand: 10^{bound / np.log(10):.3f}, a blind guess 10^{prior / np.log(10):.3f}")

# %% tags=["exhibit:beyond/small_priors"]
from companion.papers.beyond import small_priors

tables = small_priors.measure(study)
row = tables["curves"].query("d == 784 and share == 0.6 and epsilon == 1").iloc[0]
print(f"in the figure: 10^{row['bound']:.3f}, a blind guess 10^{row['prior']:.3f}")
display(small_priors.draw(tables))
study.judge(small_priors, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** What does the gap cost? You want nobody to name one of eight candidates more than half
# of the time. How much more noise does the bound demand than the best attack on orthogonal
# candidates does?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from scipy.optimize import brentq

attack = brentq(lambda signal: bounds.bayes_success(signal, 8) - 0.5, 0.1, 9)
bound = brentq(lambda signal: bounds.rero_gaussian(1 / signal, 1 / 8) - 0.5, 0.1, 9)
print(f"signal sqrt(T) / sigma at most {attack:.2f} by the attack, {bound:.2f} by the bound")
print(f"{attack / bound - 1:.0%} more noise: the price of not knowing the candidates' geometry")

# %% [markdown]
# **Change.** Spread the candidates' gradients as far apart as is possible: a regular simplex, where
# each pair has the cosine $-1/(n-1)$. How much of the gap to the bound does that close, at
# $\varepsilon=10$, for 2, 8 and 64 candidates?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
noise = privacy.noise_for_epsilon(10.0, 1e-5, steps=100)
for n in (2, 8, 64):
    flat, spread = bounds.bayes_success(100**0.5 / noise, n, np.array([0.0, -1 / (n - 1)]))
    bound = bounds.rero_gaussian(noise, 1 / n, steps=100)
    print(f"n = {n}: orthogonal {flat:.2f}, simplex {spread:.2f}, bound {bound:.2f}")
print("all of it for two candidates, hardly any for many: far apart is then nearly orthogonal")

# %% [markdown]
# **Prove.** With more orthogonal candidates the best attack is right less often. Show that its factor
# over a blind guess, $n\,P_n(m,0)$, nevertheless grows with $n$, for every signal $m>0$.

# %% [markdown]
# ```{dropdown} Solution
# By {prf:ref}`prf-beyond-bayes` $P_n(m,0)=\int\varphi(x-m)\Phi(x)^{n-1}dx$, which falls with $n$ because
# $\Phi(x)<1$. Let $M_n$ be the largest of $n$ standard normal numbers; its density is
# $n\,\varphi(x)\Phi(x)^{n-1}$. With $\varphi(x-m)=\varphi(x)\,e^{mx-m^2/2}$
#
# $$n\,P_n(m,0)=e^{-m^2/2}\;\mathbb E\,e^{mM_n}.$$
#
# A further number can only raise the largest one, so the right side grows with $n$; and because
# $M_n\to\infty$ it grows beyond every limit. Small priors make success rare and the gain large.
# ```
