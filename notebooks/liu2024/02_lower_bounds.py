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
# Liu et al., Section 2, Appendices A, D and E. Whatever the attack, the paper holds, the reconstruction
# error under noise of standard deviation $\sigma$ is at least of order $\sigma\sqrt{d/m}$, and each
# defence moves that bound by a factor. The bound is Cramér and Rao's, loosened to a trace. On this page
# it is computed without loosening, for finite networks and under each defence
# ({func}`reconrisk.bounds.cramer_rao_error`), so that one can see what the loosening loses, what the
# attacker's knowledge is worth, and for whom the bound is one. How near attacks come is on
# {doc}`03_a_stronger_attack`.

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
# {prf:ref}`Proposition 2.1 <prf-liu2024-prop2_1>` says how much noise differential privacy asks for, to
# argue that it asks for too much. The formula is garbled in the text at hand. What its proof writes down,
# minimised, is a variance of $2\Delta^2\log(1/\delta)/\epsilon^2$ for small $\epsilon$, and at the
# measured sensitivity $\Delta$ an accountant confirms that it is private, with little to spare. The
# noise that leaves no unbiased attack on one record better than guessing zero is smaller by orders of
# magnitude. The paper's other example, a linear network, hides batches with no noise at all: turning the
# records about the one sum that is seen, and the one direction that decides the outputs, changes neither.

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
# The {prf:ref}`full version <prf-liu2024-propA1>` rests on a sensitivity of order $\sqrt m$. The worst
# pair of records is one record with both labels.

# %% tags=["exhibit:liu2024/propA1"]
from companion.papers.liu2024 import propA1

tables = propA1.measure(study)
tables.show()
study.judge(propA1, tables)

# %% [markdown]
# ### Lemma A.2
#
# The {prf:ref}`moments <prf-liu2024-lemA2>` give a valid $\delta$ for every mechanism, and seldom the
# least.

# %% tags=["exhibit:liu2024/lemA2"]
from companion.papers.liu2024 import lemA2

tables = lemA2.measure(study)
study.judge(lemA2, tables)

# %% [markdown]
# ## Without a defence
#
# ### Theorem 3.2
#
# The {prf:ref}`order <prf-liu2024-thm3_2>` comes out, in $d$ and in $m$. The exact bound also grows with
# the batch, because records of one batch can be taken for each other; the trace does not see that.

# %% tags=["exhibit:liu2024/thm3_2"]
from companion.papers.liu2024 import thm3_2

tables = thm3_2.measure(study)
display(thm3_2.draw(tables))
study.judge(thm3_2, tables)

# %% [markdown]
# ### Theorem D.7: how much is slack
#
# The {prf:ref}`full version <prf-liu2024-thmD7>` covers any batch size. The table has, in units of
# $\sigma\sqrt{d/m}$, the loosened bound, the exact one, and the exact one for attackers who know the norms
# or do not know the labels, for each batch size and each defence. What the loosening loses is the last
# column. Remark D.4 counts ReLU among the activations with two derivatives.

# %% tags=["exhibit:liu2024/thmD7"]
from companion.papers.liu2024 import thmD7

tables = thmD7.measure(study)
tables.show()
study.judge(thmD7, tables)

# %% [markdown]
# ### Lemma D.2
#
# The {prf:ref}`loosening itself <prf-liu2024-lemD2>`.

# %% tags=["exhibit:liu2024/lemD2"]
from companion.papers.liu2024 import lemD2

tables = lemD2.measure(study)
study.judge(lemD2, tables)

# %% [markdown]
# ### Lemma D.5
#
# The {prf:ref}`sizes of the weights <prf-liu2024-lemD5>`.

# %% tags=["exhibit:liu2024/lemD5"]
from companion.papers.liu2024 import lemD5

tables = lemD5.measure(study)
tables.show()
study.judge(lemD5, tables)

# %% [markdown]
# ### Lemma D.6: one record, and who is bound
#
# For {prf:ref}`one record <prf-liu2024-lemD6>` the trace loses nothing. But equation (27) takes the bound
# for a minimax one. It binds unbiased estimators, and guessing zero is a counterexample of one line.

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
# {prf:ref}`Clipping <prf-liu2024-lemE1>` multiplies the noise. As the gradient's norm grows as
# $\sqrt m$, the width then drops out of the bound.

# %% tags=["exhibit:liu2024/lemE1"]
from companion.papers.liu2024 import lemE1

tables = lemE1.measure(study)
tables.show()
study.judge(lemE1, tables)

# %% [markdown]
# ### Proposition 3.2: local aggregation
#
# {prf:ref}`Two local steps on two batches <prf-liu2024-prop3_2>` bound as one step on both does.

# %% tags=["exhibit:liu2024/prop3_2"]
from companion.papers.liu2024 import prop3_2

tables = prop3_2.measure(study)
study.judge(prop3_2, tables)

# %% [markdown]
# ### Proposition E.2
#
# The {prf:ref}`same <prf-liu2024-propE2>` over the learning rates, whose orders the statement and its
# proof give differently.

# %% tags=["exhibit:liu2024/propE2"]
from companion.papers.liu2024 import propE2

tables = propE2.measure(study)
tables.show()
study.judge(propE2, tables)

# %% [markdown]
# ### Proposition 3.4: pruning
#
# {prf:ref}`Pruning <prf-liu2024-prop3_4>` leaves the order as it is, too. The proposition's $\rho$ is the
# share of the Jacobian that is kept; its formula wants the share that is pruned. The tensor attack, for
# which the paper finds no bound here, does fail.

# %% tags=["exhibit:liu2024/prop3_4"]
from companion.papers.liu2024 import prop3_4

tables = prop3_4.measure(study)
tables.show()
study.judge(prop3_4, tables)

# %% [markdown]
# ### Lemma E.3 and Remark E.4: a predicted jump
#
# Pruned by size, the inner weights' entries go first, and {prf:ref}`the bound <prf-liu2024-lemE3>` should
# "greatly increase" once they are gone. It does increase, by a bend: the next entries to go are small
# because they say little. With labels of one sign and elu it goes on to infinity, which a trace cannot
# see.

# %% tags=["exhibit:liu2024/lemE3"]
from companion.papers.liu2024 import lemE3

tables = lemE3.measure(study)
display(lemE3.draw(tables))
study.judge(lemE3, tables)
