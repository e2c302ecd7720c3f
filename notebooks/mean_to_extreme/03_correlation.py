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
# # The correlation, and its exact law
#
# At the end of this page you know the exact law of the correlation between a record and its copy, and
# a bound on it that holds for every image.
#
# *From Mean to Extreme*, Section 4.2.2. The paper bounds a population value of the normalised
# cross-correlation and holds that single values cannot be bounded. They can: this page gives the
# exact law.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's photographs (paper profile)
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
# ## The population's correlation
#
# {prf:ref}`Proposition 6 <prf-mean_to_extreme-prop6>` takes record and noise for random variables and bounds
# their correlation, a ratio of moments: one number for all pictures. As that it is right.

# %% tags=["exhibit:mean_to_extreme/prop6"]
from companion.papers.mean_to_extreme import prop6

tables = prop6.measure(study)
study.judge(prop6, tables)

# %% [markdown]
# ## The sample's correlation
#
# {prf:ref}`Proposition B.4 <prf-mean_to_extreme-propB4>` splits the sample NCC into a constant and
# a fluctuation; the fluctuation takes single values above the printed bound.

# %% tags=["exhibit:mean_to_extreme/propB4"]
from companion.papers.mean_to_extreme import propB4

tables = propB4.measure(study)
study.judge(propB4, tables)

# %% [markdown]
# ## The exact law of the NCC
#
# Fix the record $x$. The centred noise is spherically symmetric in $N-1$ dimensions, and the NCC is
# the cosine of the angle between $x-\bar x$ and $x-\bar x$ plus that noise. Hence
#
# $$
# r\,\frac{\sqrt{N-2}}{\sqrt{1-r^2}} \sim t_{N-2}(\delta),
# \qquad \delta = \frac{\lVert x-\bar x\rVert}{\sigma\lVert X\rVert} \le \frac1\sigma ,
# $$ (eq-beyond-ncc-law)
#
# a non-central $t$ variable: that of the slope in a regression with fixed design. Its tail is an $(\eta,\gamma)$-ReRo statement for the NCC, and with
# $\delta = 1/\sigma$ one that needs no data: {py:func}`reconrisk.bounds.ncc_tail`.

# %%
from reconrisk import bounds

log_tail = bounds.ncc_tail(0.55, 784, 0.5, log=True)  # whatever the data
print(f"logarithm of the tail by hand: {log_tail:.4f}")

# %% tags=["exhibit:beyond/ncc_law"]
from companion.papers.beyond import ncc_law

tables = ncc_law.measure(study)
row = tables["data-free"].query("0.54 < threshold < 0.56").iloc[0]
print(f"logarithm of the tail in the exhibit: {row['log tail']:.4f}")
display(ncc_law.draw(tables))
study.judge(ncc_law, tables)

# %% [markdown]
# ## How often the printed bound is exceeded
#
# {prf:ref}`Proposition 6 <prf-mean_to_extreme-prop6>` bounds a ratio of population moments. How
# many single reconstructions have a larger NCC? The exact tail at the bound gives the share at any
# dimension. It tends to one half, and the expectation is above the bound as well: two of the
# verdicts above.

# %%
from reconrisk import bounds

bound = bounds.ncc_bound_paper(10, 1.0)  # N = 10, sigma = 1
print(f"by hand: {bounds.ncc_tail(bound, 10, 1.0):.6f}")
row = tables["exceedance"].query("N == 10 and sigma == 1").iloc[0]
print(f"in the exhibit: {row['share above']:.6f}")

# %% [markdown]
# ## Try it
#
# **Compute.** Which noise keeps the NCC of *every* record of 784 values below one half in 99 of 100 releases? Which noise would
# the printed bound ask for?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from scipy.optimize import brentq

exact = brentq(lambda noise: float(bounds.ncc_tail(0.5, 784, noise)) - 0.01, 0.01, 1.0)
printed = brentq(lambda noise: float(bounds.ncc_bound_paper(784, noise)) - 0.5, 0.01, 1.0)
print(f"sigma = {exact:.4f} by the exact law, {printed:.4f} by the printed bound")
print(
    f"at the latter {100 * bounds.ncc_tail(0.5, 784, printed):.0f} of 100 releases exceed one half"
)

# %% [markdown]
# **Change.** Subtract its mean from every picture before training, as input normalisation does. Does this help the attacker
# or the defender?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from reconrisk import datasets

picture = datasets.pictures(32, 1)[0].ravel()
for name, signal in (("as it is", picture), ("centred", picture - picture.mean())):
    contrast = bounds.contrast_of(signal)
    expected = bounds.expected_ncc(signal.size, 0.02, contrast)
    print(f"{name}: contrast {contrast:.2f}, expected NCC {expected:.2f} at sigma = 0.02")
print("the attacker: the noise follows the norm, of which brightness is then no part")

# %% [markdown]
# **Refute.** *The expected NCC is at most $1/\sqrt{1+N\sigma^2}$.*

# %% [markdown]
# ```{dropdown} Solution
# Take $N=2$ and $X=(1,-1)$. Both centred pictures lie on one line, so the NCC is $1$ if $X$ and its copy point the same way and $-1$ if
# not. Along the unit vector $X/\sqrt2$ the copy is $\sqrt2\,(1+\sigma\xi)$ with $\xi$ standard normal. So the NCC is 1 with
# probability $P(1+\sigma\xi>0)=\Phi(1/\sigma)$, and its expectation is $2\Phi(1/\sigma)-1$. At $\sigma=\frac12$ that is $0.954$, and the
# bound is $1/\sqrt{1.5}=0.816$.
# ```
