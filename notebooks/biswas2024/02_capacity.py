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
# # Bayes' capacity
#
# At the end of this page you know what Bayes' capacity measures, how large it is for both mechanisms,
# and on which choices it depends.
#
# Biswas et al., Sections IV and V, Appendix B. By how much can a noisy gradient raise an attacker's
# chance of guessing the batch? The paper's answer is {term}`Bayes' capacity`, and its thesis is
# that this, rather than $\varepsilon$, measures how well a mechanism hides the data. Here every
# lemma is checked on random channels, every closed form against an integral and against sampling,
# and the thesis at the paper's own settings. Statements are on the {doc}`paper's page
# </book/papers/biswas2024>`. Nothing is trained and no data are read.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (not needed here)
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
# ## What a channel's capacity does
#
# A channel is a matrix of conditional probabilities, one row for each secret. Its capacity
# {eq}`eq-biswas2024-13` is the sum of its columns' maxima.
#
# ### Lemma 1: deterministic pre-processing
#
# Clipping and averaging are deterministic. In front of the noise they repeat or swap rows, which
# does not change the maxima ({prf:ref}`Lemma 1 <prf-biswas2024-lem1>`). Every input must be
# reached: without one of them the capacity may fall.

# %% tags=["exhibit:biswas2024/lem1"]
from companion.papers.biswas2024 import lem1

tables = lem1.measure(study)
tables.show()
study.judge(lem1, tables)

# %% [markdown]
# ### Lemma 2: nothing and everything
#
# The least and the largest capacity, and random channels between them
# ({prf:ref}`Lemma 2 <prf-biswas2024-lem2>`): 1 where every secret looks the same, the number of
# secrets where each has outputs of its own.

# %% tags=["exhibit:biswas2024/lem2"]
from companion.papers.biswas2024 import lem2

tables = lem2.measure(study)
tables.show()
study.judge(lem2, tables)

# %% [markdown]
# ### Corollary 1: a smaller domain
#
# The same holds for densities: two points, the unit ball, a product of two unit balls and the ball
# around it are nested, and the capacity of the noise grows from each to the next.

# %% tags=["exhibit:biswas2024/cor1"]
from companion.papers.biswas2024 import cor1

tables = cor1.measure(study)
tables.show()
study.judge(cor1, tables)

# %% [markdown]
# ### Lemma 3: data processing
#
# No processing of the output raises the capacity: checked on random channels behind random
# channels, and on Gaussian noise whose output is rounded.

# %% tags=["exhibit:biswas2024/lem3"]
from companion.papers.biswas2024 import lem3

tables = lem3.measure(study)
tables.show()
study.judge(lem3, tables)

# %% [markdown]
# ## What it says about DP-SGD
#
# ### Theorem 4: the risk is at most the capacity of the noise
#
# {prf:ref}`Theorem 4 <prf-biswas2024-thm4>` equates the two, provided that every input of the noise
# mechanism is some batch's gradient. The paper then takes a whole ball for those inputs. There are
# finitely many batches, so the risk is smaller: as a disc fills up with gradients, the capacity
# approaches the disc's from below. At the paper's size, the number of batches of 128 that can be
# drawn from 60,000 known records is astronomically smaller than any of its Gaussian capacities.
# Section V calls the capacity a tight bound on attackers with any other prior or aim. So it is: for
# every prior that excludes nothing there is an aim that attains it, a right guess paid by the
# inverse of the secret's probability; random aims gain less.

# %% tags=["exhibit:biswas2024/thm4"]
from companion.papers.biswas2024 import thm4

tables = thm4.measure(study)
tables.show()
study.judge(thm4, tables)

# %% [markdown]
# ### Theorem 5: Gaussian noise
#
# The supremum of the density is its peak inside the ball of inputs, and outside it the density of
# the ball's nearest point ({prf:ref}`Theorem 5 <prf-biswas2024-thm5>`). The closed form is compared
# with the integral over shells, up to the paper's 13,700 dimensions, with importance sampling and
# with its limits. Averaging over the batch is a change of unit and changes no capacity: the
# averaged numbers are large because the noise is small compared with a ball that holds whole
# batches.

# %% tags=["exhibit:biswas2024/thm5"]
from companion.papers.biswas2024 import thm5

tables = thm5.measure(study)
tables.show()
study.judge(thm5, tables)

# %% [markdown]
# ### Which domain?
#
# Layers that are clipped one by one do not fill Theorem 5's ball but the product of their own balls,
# which has a closed form too ({prf:ref}`prf-beyond-layers`). A gradient clipped as a whole fills the
# unit ball. For a batch average the log capacities of the three domains differ by thousands of nats.

# %%
import numpy as np
from reconrisk import bounds

layers, noise = np.array([12_800, 750, 150]), 1.23 / 128  # sigma over the batch size
ball, whole = bounds.bayes_capacity_gaussian(layers.sum(), noise, [3**0.5, 1.0])
print(f"by hand: {bounds.bayes_capacity_gaussian(layers, noise, 1.0).sum():,.1f} nats, ", end="")
print(f"Theorem 5's ball {ball:,.1f}, the unit ball {whole:,.1f}")

# %% [markdown]
# ### Theorem 6: von Mises-Fisher noise
#
# Every direction is the mode of some input's noise, so the capacity is the density's peak times the
# area of the sphere ({prf:ref}`Theorem 6 <prf-biswas2024-thm6>`). The integral over the angle
# agrees, and so does the library's sampler.

# %% tags=["exhibit:biswas2024/thm6"]
from companion.papers.biswas2024 import thm6

tables = thm6.measure(study)
tables.show()
study.judge(thm6, tables)

# %% [markdown]
# ## Capacity and epsilon
#
# ### Figure 5
#
# The paper finds the two measures incomparable: with a smaller $\varepsilon$ a mechanism may have
# the larger capacity. This holds at its settings, with certified epsilons as with printed ones. The
# reason is that the two scales measure different things: the Gaussian's capacity is that of a whole
# batch's average, its $\varepsilon$ that of one record. With one record's gradient at stake in
# both, and the concentration chosen so that the epsilons are truly equal, the Gaussian's log
# capacity is twice VMF's at every $\varepsilon$, and one measure gives the other
# ({prf:ref}`prf-beyond-capacity-epsilon`).

# %%
from reconrisk import bounds

layers, batch = 3, 128
gaussian = bounds.bayes_capacity_gaussian(13_700, 1.23 / batch, layers**0.5)
vmf = bounds.bayes_capacity_vmf(13_700, 75.0)
print(f"by hand: {gaussian:,.1f} and {vmf:.3f} nats")

# %% tags=["exhibit:biswas2024/fig5"]
from companion.papers.biswas2024 import fig5

tables = fig5.measure(study)
row = tables["points"].query("kappa == 75").iloc[0]
print(f"in the figure: {row['Gaussian']:,.1f} and {row['VMF']:.3f} nats")
tables.show()
display(fig5.draw(tables))
study.judge(fig5, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** An attacker who holds $n$ equally likely batches is right with probability at most
# $\mathcal C/n$. From how many batches on does that say anything about one VMF release at $\kappa=75$?
# What does {func}`reconrisk.bounds.rero_vmf_one_release` say of ten?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
log_capacity = float(bounds.bayes_capacity_vmf(13_700, 75.0))
print(f"capacity says nothing up to 10^{log_capacity / np.log(10):.1f} batches")
ten = float(bounds.rero_vmf_one_release(75.0, 13_700, 1 / 10))
print(f"the right one of ten batches is named at most {ten:.2f} of the time, by the other bound")

# %% [markdown]
# **Change.** Release one number from $[-1,1]$ with Laplace or uniform noise instead of Gaussian, each
# of standard deviation 1. Which has the least capacity? Would you use it?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
y = np.linspace(-30, 30, 600_001)
far = np.maximum(np.abs(y) - 1, 0)  # distance of the output from the nearest input
normal = np.exp(-(far**2) / 2) / (2 * np.pi) ** 0.5
laplace = np.exp(-far * 2**0.5) / 2**0.5
uniform = (far <= 3**0.5) / (2 * 3**0.5)
for name, density in (("Gaussian", normal), ("Laplace", laplace), ("uniform", uniform)):
    print(f"{name}: {np.trapezoid(density, y):.2f}")
print(f"Theorem 5: {np.exp(bounds.bayes_capacity_gaussian(1, 1.0, 1.0)):.2f}")
print("uniform noise has the least capacity, and at small delta no finite epsilon at all")

# %% [markdown]
# **Prove.** Release the same secret $T$ times with independent noise. Show that the capacity is at
# most $\mathcal C^T$, and that for Gaussian noise it is that of *one* release with noise $\sigma/\sqrt T$.

# %% [markdown]
# ```{dropdown} Solution
# $\int\sup_x\prod_tf(y_t\mid x)\,dy\le\int\prod_t\sup_xf(y_t\mid x)\,dy=\mathcal C^T$, because a supremum of
# products of positive numbers is at most the product of the suprema. For Gaussian noise the mean
# $\bar y$ is sufficient: $\prod_tf(y_t\mid x)=h(y\mid\bar y)\,g(\bar y\mid x)$, where $h$ is a density that
# does not depend on $x$ and $g$ that of noise $\sigma/\sqrt T$. Integrate $h$ first: what remains is
# $\int\sup_xg(\bar y\mid x)\,d\bar y$. In many dimensions the log capacity is about $\sqrt p/\sigma$
# ({prf:ref}`prf-beyond-capacity-epsilon`), so it grows like $\sqrt T$ and not like $T$.
# ```
