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
# # Upper bounds
#
# Liu et al., Section 3 and Appendices B and C. In a two-layer network with random weights the gradient of
# the output weights is a function of Gaussian vectors that the attacker knows. Its moments with Hermite
# polynomials are sums of powers of the records, by Stein's lemma, and a tensor decomposition finds them.
# The paper bounds the error of this attack under every defence ({ref}`Table 1 <exhibit-liu2024-table1>`).
# It runs no experiment on that; here every bound is measured, as exponents of independent networks with
# their intervals. An upper bound asks that the error grows no faster than it says, and we say where it
# grows more slowly. The records are orthonormal, so that one factor moves at a time, and the activation is
# $\max(z - 1, 0)$, with which networks are in the asymptotic regime that fit a quick run; what counts as
# asymptotic, a mean error below .35, was decided before.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (paper profile)
overrides = {}  # {"exhibit id": {"parameter": value}}
workers = 1  # processes for sweeps
checkpoints = ""  # folder for the finished tasks of sweeps

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Set-up"}
from companion import figures, study

session = study.Study(
    profile=profile,
    seed=seed,
    device=device,
    data_root=data_root,
    overrides=overrides,
    workers=workers,
    checkpoints=checkpoints,
)

# %% [markdown]
# ## Figure 1: an inverse problem
#
# The paper's diagram, in a design of our own: a batch is an unknown signal, its gradient the forward
# map, a defence changes what is seen of it, an attack inverts. A batch is sent through all parts. Put in
# another order it has the same gradient, which is why errors are counted in the best order. Without a
# defence the problem is solved exactly; with noise the error is that of the
# {term}`Cramér-Rao bound`.

# %% tags=["exhibit:liu2024/fig1", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/fig1"))

# %% [markdown]
# ## The attack
#
# ### The algorithm
#
# Two moments, $P$ and $T(V, V, V)$, the leading eigenvectors $V$ of the first, and the components of the
# second ({func}`reconrisk.attacks.tensor_attack`). Where a mean derivative of the activation vanishes, the
# next order takes its place, contracted with a vector: for ReLU, GELU and their like the third does, for
# the odd functions the second. What is recovered is a direction with its sign, for orders 2 and 3. The
# smaller of the two coefficients decides how wide the network must be.
#
# The same attack shows that secure aggregation leaves no more to be found than a large batch does: what
# the server sees *is* the gradient of one.

# %% tags=["exhibit:liu2024/alg_tensor", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/alg_tensor"))

# %% [markdown]
# ### Theorem 3.1: the error without defence
#
# {prf:ref}`The order <prf-liu2024-thm3_1>` is $B\sqrt{d/m}$. The root of $d/m$ comes out. In $B$ the
# error grows more slowly, as about the root of $B$ where labels are random: the noise of the moments has
# the size of a gradient's entry, and entries of random signs add up like a random walk.

# %% tags=["exhibit:liu2024/thm3_1", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/thm3_1"))

# %% [markdown]
# ### Theorem B.6: with all factors
#
# {prf:ref}`The full statement <prf-liu2024-thmB6>` has $\pi_{\min}$, the records' smallest singular value,
# squared in the denominator, and asks for batches of at most some $d^{1/4}$, far smaller than those of the
# paper's experiments. Where we leave that range nothing happens to the error.

# %% tags=["exhibit:liu2024/thmB6", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/thmB6"))

# %% [markdown]
# ## Table 1
#
# All orders and all exponents. The upper row of the printed table is lost in the text that we have, and
# taken from the propositions. The lower row is the Cramér-Rao bound of the same networks
# ({func}`reconrisk.bounds.cramer_rao_error`); {doc}`the next page <02_lower_bounds>` is about that. Two
# things to see in the picture. With clipping *and* noise at fixed $C$ and $\sigma_0$, neither row falls with
# the width, because the gradient's norm grows as $\sqrt m$: the factor $\sqrt{d/m}$ is there, and cancels.
# And "matching" means $d$ and $m$. In $B$ the rows differ, and without noise the lower one is zero, which
# the tensor attack does not attain and {doc}`a better one <03_a_stronger_attack>` does.

# %% tags=["exhibit:liu2024/table1", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/table1"))

# %% [markdown]
# ## The defences one by one
#
# ### Local aggregation
#
# Two local steps leave the orders unchanged ({prf:ref}`Proposition 3.1 <prf-liu2024-prop3_1>`,
# {prf:ref}`C.1 <prf-liu2024-propC1>`). At the rates that the proposition fixes this cannot be otherwise:
# the second gradient is the first one. We also try rates that halve the residuals; there it is a result.
# Two steps on two parts of a batch are one step on the whole
# ({prf:ref}`Proposition C.2 <prf-liu2024-propC2>`).

# %% tags=["exhibit:liu2024/prop3_1", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/prop3_1"))

# %% tags=["exhibit:liu2024/propC1", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/propC1"))

# %% tags=["exhibit:liu2024/propC2", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/propC2"))

# %% [markdown]
# ### Clipping and noise
#
# {prf:ref}`Clipping <prf-liu2024-propC11>` multiplies both moments by one number, and the attack returns
# the same records. {prf:ref}`Noise <prf-liu2024-propC12>` adds to the noise that the data make themselves,
# in squares. {prf:ref}`Both together <prf-liu2024-propC13>` act as noise that is $\|G\|/C$ times as large,
# which is all that {prf:ref}`Proposition 3.3 <prf-liu2024-prop3_3>` says of DP-SGD.

# %% tags=["exhibit:liu2024/propC11", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/propC11"))

# %% tags=["exhibit:liu2024/propC12", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/propC12"))

# %% tags=["exhibit:liu2024/propC13", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/propC13"))

# %% tags=["exhibit:liu2024/prop3_3", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/prop3_3"))

# %% [markdown]
# ## What the proofs lean on
#
# ### Decomposition, Bernstein's inequality, Stein's lemma
#
# {prf:ref}`The error of a disturbed decomposition <prf-liu2024-thmB1>` is linear in the disturbance.
# {prf:ref}`Bernstein's inequality <prf-liu2024-lemB2>` is printed without a constant, and needs one.
# {prf:ref}`Stein's lemma <prf-liu2024-lemB3>` turns moments into derivatives, at a kink too.

# %% tags=["exhibit:liu2024/thmB1", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/thmB1"))

# %% tags=["exhibit:liu2024/lemB2", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemB2"))

# %% tags=["exhibit:liu2024/lemB3", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemB3"))

# %% [markdown]
# ### How the moments concentrate
#
# {prf:ref}`P <prf-liu2024-lemB4>` at the root of $d/m$; {prf:ref}`T(V, V, V) <prf-liu2024-lemB5>`, which
# lives in $B$ dimensions, without $d$.

# %% tags=["exhibit:liu2024/lemB4", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemB4"))

# %% tags=["exhibit:liu2024/lemB5", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemB5"))

# %% [markdown]
# ### What a local step changes
#
# Every change is of order $1/m$ at the stated rates. We take records that overlap and agree, where the
# bounds' factors of $B$ are largest; those of $d$ are generous, as the mean changes in few directions.

# %% tags=["exhibit:liu2024/lemC4", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemC4"))

# %% tags=["exhibit:liu2024/lemC5", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemC5"))

# %% tags=["exhibit:liu2024/corC6", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/corC6"))

# %% tags=["exhibit:liu2024/lemC7", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemC7"))

# %% tags=["exhibit:liu2024/lemC8", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemC8"))

# %% tags=["exhibit:liu2024/lemC9", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemC9"))

# %% tags=["exhibit:liu2024/lemC10", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("liu2024/lemC10"))
