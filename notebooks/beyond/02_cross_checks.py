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
# # The papers against each other
#
# At the end of this page you know where two of the papers answer the same question, whether they
# agree, and which of the two answers says more.
#
# Where two papers consider the same attacker, their results can be compared. Here are five such checks, each
# with its proof on the page {doc}`../../book/papers/beyond`.

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
# ## Worst cases: B against C
#
# Paper B's worst-case success, paper C's bound on every attack and the power of a membership test are one number
# for full batches ({prf:ref}`proof <prf-beyond-worst_case>`). With sub-sampling paper B's does not change, and
# paper C's falls.

# %%
import math

from reconrisk import DPSGD, bounds

run = DPSGD(math.sqrt(30) / 2, sampling_rate=0.3, steps=30)
whole = bounds.rero_gaussian(run.noise_multiplier, 0.1, steps=30)  # paper B: no credit for sampling
print(f"by hand: {bounds.rero(run, 0.1).upper:.4f}, without the credit {whole:.4f}")

# %% tags=["exhibit:beyond/worst_case"]
from companion.papers.beyond import worst_case

tables = worst_case.measure(study)
row = tables["bounds"].query("T == 30 and signal == 2 and q == 0.3 and kappa == 0.1").iloc[0]
print(f"in the figure: {row['upper']:.4f}, without the credit {row['closed form']:.4f}")
display(worst_case.draw(tables))
study.judge(worst_case, tables)

# %% [markdown]
# ## Near misses: A against C
#
# What is the probability that the error of a reconstruction is below a threshold? Paper A gives the law of its own
# attack, we bound every use of the same observation, and paper C bounds every attack through every network. Each
# changes from zero to one at its own threshold ({prf:ref}`theorem <prf-beyond-near_misses>`); the distance between
# the last two is the price of allowing every network.

# %%
from reconrisk import bounds

# N = 784 and N sigma^2 = 1, a record of norm one: an error of half its mean square or less
n, share = 784, 0.5
row_mean = bounds.mse_tail(share / n, n, n**-0.5, 1.0, log=True)
any_use = bounds.mse_tail_sphere(share / n, n, n**-0.5, 1.0, log=True)
print(f"by hand, log-probability per dimension: {row_mean / n:.4f}, any use {any_use / n:.4f}")

# %% tags=["exhibit:beyond/near_misses"]
from companion.papers.beyond import near_misses

tables = near_misses.measure(study)
row = tables["exponents"].query("N == 784 and scale == 1 and share == 0.5").iloc[0]
print(
    f"in the figure, log-probability per dimension: {row['row mean (A)']:.4f}, "
    f"any use {row['any use of it']:.4f}"
)
display(near_misses.draw(tables))
study.judge(near_misses, tables)

# %% [markdown]
# ## Capacity and robustness: D against C
#
# For a uniform prior both bound the gain over guessing ({prf:ref}`proof <prf-beyond-capacity_and_rero>`). Capacity
# is looser because it holds for every prior at once.

# %%
from reconrisk import bounds

n, sigma = 20, 1.0
allowed = n * bounds.rero_gaussian(sigma, 1 / n)
reached = n * bounds.bayes_success(1 / sigma, n)  # the best attack on orthogonal candidates
print(f"by hand: gain {reached:.4f} of {allowed:.4f} that ReRo allows")

# %% tags=["exhibit:beyond/capacity_and_rero"]
from companion.papers.beyond import capacity_and_rero

tables = capacity_and_rero.measure(study)
row = tables["gains"].query("p == 760 and sigma == 1 and n == 20").iloc[0]
print(f"in the figure: gain {row['best attack']:.4f} of {row['ReRo']:.4f} that ReRo allows")
display(capacity_and_rero.draw(tables))
study.judge(capacity_and_rero, tables)

# %% [markdown]
# ## Unbiased attacks: C's reference against A
#
# Papers A and C both find the bound of Guo et al. far too low, without saying why. The factor is the
# image's squared norm, over a quarter of that of one pixel's range ({prf:ref}`proof <prf-beyond-unbiased_bound>`).

# %%
from reconrisk import bounds

sigma, pixels, square = 1.0, 784, 0.1
exact = bounds.expected_mse(sigma, data_norm=(square * pixels) ** 0.5)
ratio = exact / bounds.mse_lower_bound(sigma)
print(f"by hand: the row mean's MSE is {ratio:.2f} times the bound of Guo et al.")

# %% tags=["exhibit:beyond/unbiased_bound"]
from companion.papers.beyond import unbiased_bound

tables = unbiased_bound.measure(study)
row = tables["errors"].query("sigma == 1 and `mean square` == 0.1").iloc[0]
ratio = row["row mean"] / row["bound"]
print(f"in the figure: the row mean's MSE is {ratio:.2f} times the bound of Guo et al.")
display(unbiased_bound.draw(tables))
study.judge(unbiased_bound, tables)

# %% [markdown]
# ## Two mechanisms: D against itself
#
# Which concentration matches a noise multiplier? Paper D compares at equal epsilon and at equal capacity, and finds
# opposite winners. For one vector the two differ by a factor of two in every dimension
# ({prf:ref}`the reason <prf-beyond-matched_vmf>`).

# %%
from reconrisk import bounds, privacy

# the concentration whose mean cosine is that of Gaussian noise with sigma = 1
p, sigma = 13_700, 1.0
cosine = bounds.direction_cosine_gaussian(p, sigma)
kappa = privacy.vmf_concentration(p, cosine)
print(f"by hand, by mean cosine: {kappa / (p**0.5 / sigma):.5f} sqrt(p)/sigma")

# %% tags=["exhibit:beyond/matched_vmf"]
from companion.papers.beyond import matched_vmf

tables = matched_vmf.measure(study)
multiple = tables["all"].query("p == 13_700 and sigma == 1 and notion == 'mean cosine'")["multiple"]
print(f"in the table, by mean cosine: {multiple.item():.5f} sqrt(p)/sigma")
tables.show()
study.judge(matched_vmf, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** Paper B's worst case gives no credit for sampling. At how much larger a noise multiplier does
# it promise what is certified for the first run of this page?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from scipy.optimize import brentq

promised = bounds.rero(run, 0.1).upper
needed = brentq(lambda s: float(bounds.rero_gaussian(s, 0.1, steps=30)) - promised, 1.0, 50.0)
print(f"sigma = {needed:.1f} in the place of {run.noise_multiplier:.1f}")
print(
    f"{needed / run.noise_multiplier:.1f} times as large; the sampling rate is {run.sampling_rate}"
)

# %% [markdown]
# **Change.** The candidates' gradients were orthogonal. Let every two have a cosine of one half, or let them lie as far apart as twenty vectors
# can. What does the best attack gain?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for name, cosine in (("one half", 0.5), ("zero", 0.0), ("-1/19", -1 / 19)):
    gain = 20 * bounds.bayes_success(1.0, 20, cosine)
    print(f"cosine {name}: gain {gain:.2f} of {allowed:.2f} that ReRo allows")
print("the bound does not know the candidates; similar ones are harder to tell apart")

# %% [markdown]
# **Prove.** Candidates of length $\ell$ whose pairwise cosines are all $c$, with $0\le c<1$, are told apart exactly as well as orthogonal ones of length
# $\ell\sqrt{1-c}$.

# %% [markdown]
# ```{dropdown} Solution
# Choose orthonormal $u,e_1,\dots,e_n$, and take $x_i=\ell(\sqrt c\,u+\sqrt{1-c}\,e_i)$: these have length $\ell$ and cosines $c$, and all such sets
# are rotations of each other, under which Gaussian noise keeps its law. The release is $x_i+\sigma\xi$. Its component along $u$ is
# $\ell\sqrt c$ plus noise, whichever $i$ it is, and that noise is independent of the noise in the other directions. So the attacker loses nothing by
# dropping it, and what is left is the release of $\ell\sqrt{1-c}\,e_i$.
# ```
