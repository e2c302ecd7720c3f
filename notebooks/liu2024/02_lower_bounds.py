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
# # Lower bounds
#
# At the end of this page you know the least error of any unbiased attack on a two-layer network,
# with the constants, and what each defence adds to it.
#
# Liu et al., Section 2, Appendices A, D and E. According to the paper, the reconstruction error of every
# attack under noise of standard deviation $\sigma$ is at least of order $\sigma\sqrt{d/m}$, and each defence
# multiplies that bound by a factor. It is the Cramér–Rao bound, loosened to a trace. On this page it is
# computed without loosening, for finite networks and under each defence
# ({func}`reconrisk.bounds.cramer_rao_error`), to see what the loosening loses, what the attacker's knowledge
# is worth, and which attackers the bound holds for. {doc}`03_a_stronger_attack` shows how close attacks come.

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
# ## The price of differential privacy
#
# {prf:ref}`Proposition 2.1 <prf-liu2024-prop2_1>` says how much noise differential privacy requires, to argue
# that it is too much. The power of $\epsilon$ is lost in our text of the paper. Minimised, the expression in the proof
# gives a variance of $2\Delta^2\log(1/\delta)/\epsilon^2$ for small $\epsilon$; at the measured sensitivity
# $\Delta$ an accountant confirms that this is private, with up to 2.4 times the least variance. The noise at which no unbiased
# attack on one record beats guessing zero is smaller by orders of magnitude. The paper's other example, a
# linear
# network, hides batches without any noise: a reflection that fixes the sum in the gradient and the direction
# that decides the outputs maps a batch to another of equal gradient.

# %%
from reconrisk import privacy

variance = privacy.noise_for_epsilon(1.0, 1e-5) ** 2
print(f"least variance over the squared sensitivity at epsilon = 1, by hand: {variance:.4f}")

# %% tags=["exhibit:liu2024/prop2_1"]
from companion.papers.liu2024 import prop2_1

tables = prop2_1.measure(study)
needed = tables["noise"].set_index("epsilon")["needed"]
print(
    f"least variance over the squared sensitivity at epsilon = 1, in the figure: {needed[1.0]:.4f}"
)
display(prop2_1.draw(tables))
tables.show()
study.judge(prop2_1, tables)

# %% [markdown]
# ### Proposition A.1
#
# The {prf:ref}`full version <prf-liu2024-propA1>` uses a sensitivity of order $\sqrt m$. The worst pair of
# records is one record with both labels.

# %% tags=["exhibit:liu2024/propA1"]
from companion.papers.liu2024 import propA1

tables = propA1.measure(study)
tables.show()
study.judge(propA1, tables)

# %% [markdown]
# ### Lemma A.2
#
# The {prf:ref}`moments <prf-liu2024-lemA2>` give a valid $\delta$ for every mechanism, but rarely the least.

# %% tags=["exhibit:liu2024/lemA2"]
from companion.papers.liu2024 import lemA2

tables = lemA2.measure(study)
study.judge(lemA2, tables)

# %% [markdown]
# ## Without a defence
#
# ### Theorem 3.2
#
# The measured exponents in $d$ and $m$ confirm the {prf:ref}`order <prf-liu2024-thm3_2>`. The exact bound
# also grows with the batch, because records of one batch can be confused; the trace does not show that.

# %% tags=["exhibit:liu2024/thm3_2"]
from companion.papers.liu2024 import thm3_2

tables = thm3_2.measure(study)
display(thm3_2.draw(tables))
study.judge(thm3_2, tables)

# %% [markdown]
# ### Theorem D.7: the slack of the bound
#
# The {prf:ref}`full version <prf-liu2024-thmD7>` covers any batch size. The table has, in units of
# $\sigma\sqrt{d/m}$, the loosened bound, the exact one, and the exact one for attackers who know the norms
# or do not know the labels, for each batch size and each defence. The last column is the loss by loosening.
# Remark D.4 counts ReLU among the activations with two derivatives; it has them almost everywhere, and its
# trace tends to the same limit.

# %% tags=["exhibit:liu2024/thmD7"]
from companion.papers.liu2024 import thmD7

tables = thmD7.measure(study)
tables.show()
study.judge(thmD7, tables)

# %% [markdown]
# ### Lemma D.2
#
# {prf:ref}`One inequality <prf-liu2024-lemD2>` loosens the bound to a trace.

# %% tags=["exhibit:liu2024/lemD2"]
from companion.papers.liu2024 import lemD2

tables = lemD2.measure(study)
study.judge(lemD2, tables)

# %% [markdown]
# ### Lemma D.5
#
# The proofs need to know {prf:ref}`how large the weights <prf-liu2024-lemD5>` of random networks are.

# %% tags=["exhibit:liu2024/lemD5"]
from companion.papers.liu2024 import lemD5

tables = lemD5.measure(study)
tables.show()
study.judge(lemD5, tables)

# %% [markdown]
# ### Lemma D.6: one record, and biased estimators
#
# For {prf:ref}`one record <prf-liu2024-lemD6>` the trace loses at most a tenth. But equation (27) takes the bound for
# a minimax one, although it holds for unbiased estimators only: guessing zero is a simple counterexample.

# %% tags=["exhibit:liu2024/lemD6"]
from companion.papers.liu2024 import lemD6

tables = lemD6.measure(study)
display(lemD6.draw(tables))
study.judge(lemD6, tables)

# %% [markdown]
# ## Under defences
#
# ### Lemma E.1: clipping
#
# {prf:ref}`Clipping <prf-liu2024-lemE1>` multiplies the noise. Since the gradient's norm grows as $\sqrt m$,
# the bound then does not depend on the width.

# %% tags=["exhibit:liu2024/lemE1"]
from companion.papers.liu2024 import lemE1

tables = lemE1.measure(study)
tables.show()
study.judge(lemE1, tables)

# %% [markdown]
# ### Proposition 3.2: local aggregation
#
# {prf:ref}`Two local steps on two batches <prf-liu2024-prop3_2>` have the bound of one step on both.

# %% tags=["exhibit:liu2024/prop3_2"]
from companion.papers.liu2024 import prop3_2

tables = prop3_2.measure(study)
study.judge(prop3_2, tables)

# %% [markdown]
# ### Proposition E.2
#
# {prf:ref}`The same <prf-liu2024-propE2>`, with the learning rates in the bound. The statement and its proof give
# different orders.

# %% tags=["exhibit:liu2024/propE2"]
from companion.papers.liu2024 import propE2

tables = propE2.measure(study)
tables.show()
study.judge(propE2, tables)

# %% [markdown]
# ### Proposition 3.4: pruning
#
# {prf:ref}`Pruning <prf-liu2024-prop3_4>` does not change the order either. The proposition's $\rho$ is the
# share of the Jacobian that is kept; its formula needs the share that is pruned. The tensor attack, for which
# the paper finds no bound here, fails once half is pruned.

# %% tags=["exhibit:liu2024/prop3_4"]
from companion.papers.liu2024 import prop3_4

tables = prop3_4.measure(study)
tables.show()
study.judge(prop3_4, tables)

# %% [markdown]
# ### Lemma E.3 and Remark E.4: a predicted increase
#
# Pruning by size removes the inner weights' entries first, and {prf:ref}`the bound <prf-liu2024-lemE3>` should
# "greatly increase" once they are gone. It does increase, but without a jump: the next entries are small
# because they carry little information. With labels of one sign and elu it grows to infinity, which a trace
# cannot show.

# %% tags=["exhibit:liu2024/lemE3"]
from companion.papers.liu2024 import lemE3

tables = lemE3.measure(study)
display(lemE3.draw(tables))
study.judge(lemE3, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** The proof's variance $2\log(1/\delta)/\epsilon^2$, in units of $\Delta^2$, is enough for small $\epsilon$. Up to which $\epsilon$, at
# $\delta=10^{-5}$?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
import numpy as np
from scipy.optimize import brentq

logarithm = np.log(1e5)


def excess(epsilon):
    """Logarithm of delta over what is allowed, under the proof's noise."""
    return privacy.log_delta_gaussian(np.sqrt(2 * logarithm) / epsilon, epsilon) + logarithm


print(
    f"up to epsilon = {brentq(excess, 1, 50):.2f}; beyond, noise may only fall as 1 / sqrt(epsilon)"
)

# %% [markdown]
# **Change.** Add Laplace or logistic noise of the same variance to the entries. What happens to the least error of an unbiased attack?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from scipy import integrate, stats

for law in (stats.norm, stats.logistic, stats.laplace):
    noise = law(scale=1 / law.std())  # variance one

    def score_squared(x, noise=noise):
        slope = (noise.logpdf(x + 1e-5) - noise.logpdf(x - 1e-5)) / 2e-5
        return slope**2 * noise.pdf(x)

    information = 2 * integrate.quad(score_squared, 1e-4, 30)[0]
    print(f"{law.name}: the Cramer-Rao bound is {information**-0.5:.2f} times that of normal noise")
print("at equal variance the attacker gains from the peak of the other two")

# %% [markdown]
# **Prove.** Of all noises of the same variance with a smooth density, normal noise hides most from unbiased attacks: no other has less Fisher
# information.

# %% [markdown]
# ```{dropdown} Solution
# Let $f$ be the density, with mean zero and variance $s^2$. Integrated by parts, $\int x\,f'(x)\,dx=-1$, which is
# $\mathbb E[X\cdot f'(X)/f(X)]=-1$. By the inequality of Cauchy and Schwarz
# $1\le\mathbb E X^2\cdot\mathbb E(f'/f)^2=s^2 I$, so $I\ge1/s^2$, with equality only if $f'/f$ is proportional to $x$: the normal density. Records enter
# through the entries' means, so their information is the Jacobian's with this $I$ for each entry, and the bound on the error goes with $I^{-1/2}$.
# ```
