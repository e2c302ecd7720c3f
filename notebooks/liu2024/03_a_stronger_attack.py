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
# # A stronger attack
#
# At the end of this page you know how close an attack can come to the lower bound, and why a ranking
# of defences by one attack need not survive the next.
#
# Liu et al. measure defences of two-layer networks by the tensor attack ({prf:ref}`Theorem 3.1
# <prf-liu2024-thm3_1>`) and by a lower bound that falls with the noise
# ({prf:ref}`Theorem 3.2 <prf-liu2024-thm3_2>`). They conclude that both match in dimension and width, and that pruning, for which no
# upper bound is known, is the better defence ({doc}`01_upper_bounds`, {doc}`02_lower_bounds`). The attack uses
# two moments of a gradient that has one entry for each neuron. This page uses the entries. First it removes
# the low Hermite orders, which are pure noise in the moments ({func}`reconrisk.attacks.tensor_attack`); then
# it fits records and residuals to every released entry by least squares
# ({func}`reconrisk.attacks.refine_records`). The least error of any unbiased attack is computed exactly, from
# the derivatives of the released entries ({func}`reconrisk.bounds.cramer_rao_error`). The argument is on
# {doc}`the companion's page </book/papers/beyond_batches>`.

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
# ## Least squares against every defence
#
# Without noise the attacker has a system of equations in the records, with many more equations than
# unknowns. Clipping removes one equation, that of the gradient's length. Dropout and pruning remove more,
# and show which are left. Local steps make the equations longer, and secure aggregation is a larger batch.
# Least squares solves the remaining equations where the published attack fails under the same defence.
# Masks that dropout draws for every record separately look
# like noise to both attacks. They are not, since an entry can only be one of a few sums, and they are recovered
# with the records ({func}`reconrisk.attacks.refine_with_masks`).
#
# Least squares fails for one of two reasons. Under pruning it sometimes starts too far from the records,
# and more random starts or more neurons mostly help. Or the information is gone: of records with the same label,
# heavy pruning keeps only neurons for which all records are in the activation's linear half, and these show
# only the records' sum. The exact bound is then infinite, and the paper's loosening to a trace does not
# show it.

# %%
import numpy as np

from reconrisk.attacks import refine_records, tensor_attack
from reconrisk.metrics import match
from reconrisk.two_layer import TwoLayer, release_output_gradient

records = np.random.default_rng(1).standard_normal((3, 12))
records /= np.linalg.norm(records, axis=1, keepdims=True)
network = TwoLayer(12, 6000, "elu", 1)
released = release_output_gradient(network, records, [1.0, -1.0, 1.0])
start = tensor_attack(network, released, 3)
found = refine_records(network, released, start)
first, last = ((match(records, x.inputs).mse * 12) ** 0.5 for x in (start, found))
print(f"by hand: the tensor attack errs, {first > 0.1}; least squares do not, {last < 1e-6}")

# %% tags=["exhibit:beyond/two_layer_refinement"]
from companion.papers.beyond import two_layer_refinement

tables = two_layer_refinement.measure(study)
none = tables["runs"].query("defence == 'none'")
print(
    f"in the figure: the tensor attack errs, {(none['tensor'] > 0.1).all()}; "
    f"least squares do not, {(none['least squares'] < 1e-6).all()}"
)
display(two_layer_refinement.draw(tables))
tables.show()
study.judge(two_layer_refinement, tables)

# %% [markdown]
# ## The gap between the printed bounds
#
# {prf:ref}`Proposition 3.4 <prf-liu2024-prop3_4>` and similar statements compare an attack's error with a bound
# that is loosened twice, to a trace and to an order. The slack of the bound accounts for a small factor of
# the gap; it grows with the batch because a trace does not show that records can be confused. The rest is
# due to the attack. As the noise goes to zero, so does the lower bound, which is attained, while the upper
# bound does not change. So as functions of the noise they do not match: the dotted lines, the printed
# orders, separate for noise below the batch size.
#
# For the defences this means that dropout and pruning raise the exact bound by about the same factor at the
# same share, until pruning begins to remove information. That a pruned gradient defeats the tensor attack is a
# weakness of the attack.

# %%
from reconrisk import special

# exact over loosened bound for eight orthogonal records in high dimension: records can be confused
elu, count = special.activation("elu"), 8
own = special.normal_mean(lambda z: elu.slope(z) ** 2, elu.kinks)
shared = special.normal_mean(elu.slope, elu.kinks) ** 2
square = own / count * ((count - 1) / (own - shared) + 1 / (own + (count - 1) * shared))
print(f"by hand, the limit for 8 records: {square**0.5:.4f}")

# %% tags=["exhibit:beyond/two_layer_floor"]
from companion.papers.beyond import two_layer_floor

tables = two_layer_floor.measure(study)
limit = tables["batches"].set_index("count").loc[8, "limit"]
print(f"in the tables, the limit for 8 records: {limit:.4f}")
display(two_layer_floor.draw(tables))
study.judge(two_layer_floor, tables)

# %% [markdown]
# ## The batch size
#
# The upper bound of {ref}`Table 1 <exhibit-liu2024-table1>` is linear in $B$, and the lower bound does not
# depend on it. The exact bound grows with $B$ by a power between the two.

# %%
import numpy as np

from reconrisk import bounds
from reconrisk.two_layer import TwoLayer, gradient_jacobians, release_output_gradient

network, rng = TwoLayer(16, 16_384, "elu", 1), np.random.default_rng(1)
floors = []
for count in (1, 8):
    records = np.linalg.qr(rng.standard_normal((16, count)))[0].T
    released = release_output_gradient(network, records, rng.choice([-1.0, 1.0], count))
    rows = gradient_jacobians(network, records, released, free_residuals=True)
    information = bounds.gradient_information(rows)
    floors.append(bounds.cramer_rao_error(information, 1.0, records, unit_norm=True))
exponent = np.log(floors[1] / floors[0]) / np.log(8)
print(f"by hand, the exact bound grows with a power between 0 and 1: {0 < exponent < 1}")

# %% [markdown]
# ## Try it
#
# **Compute.** To what does the slack of the loosened bound tend as the batch grows, and for which activation is it largest?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
slack = {}
for name, phi in special.ACTIVATIONS.items():
    square = special.normal_mean(lambda z, phi=phi: phi.slope(z) ** 2, phi.kinks)
    mean = special.normal_mean(phi.slope, phi.kinks)
    slack[name] = (1 / (1 - mean**2 / square)) ** 0.5
print({name: round(slack[name], 2) for name in ("relu", "elu", "tanh", "sigmoid")})
print(
    f"largest: {max(slack, key=slack.get)}, nearly linear, so that it shows little but the records' sum"
)

# %% [markdown]
# **Change.** Let the two records of a batch resemble each other, with labels of one sign. How do the exact bound and the loosened one change?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
network = TwoLayer(16, 16_384, "elu", 1)
for cosine in (0.0, 0.9, 0.99):
    pair = np.eye(16)[:2]
    pair[1] = cosine * pair[0] + np.sqrt(1 - cosine**2) * pair[1]
    released = release_output_gradient(network, pair, [1.0, 1.0])
    information = bounds.gradient_information(gradient_jacobians(network, pair, released))
    exact = bounds.cramer_rao_error(information, 1.0, pair)
    loose = bounds.cramer_rao_error_loosened(information, 1.0, pair)
    first = (exact, loose) if cosine == 0 else first
    print(f"cosine {cosine}: exact {exact / first[0]:.1f}, loosened {loose / first[1]:.1f} times")
print("a trace cannot show that similar records are confused")

# %% [markdown]
# **Prove.** For $B$ orthogonal records with residuals of $\pm1$ the squared slack tends to
# $\frac{a}{B}\bigl(\frac{B-1}{a-b}+\frac1{a+(B-1)b}\bigr)$ in high dimension, with $a=\mathbb E\varphi'(z)^2$ and $b=(\mathbb E\varphi'(z))^2$.

# %% [markdown]
# ```{dropdown} Solution
# In a direction orthogonal to all records the weights are independent of the responses, so there the information on the $B$ coordinates is the matrix
# $M_{ik}=r_ir_k\,\mathbb E[\varphi'(z_i)\varphi'(z_k)]$ with $z_1,\dots,z_B$ independent: $a$ on the diagonal, $r_ir_kb$ off it. With $R$ the diagonal matrix of
# the residuals, $RMR=(a-b)I+b\,\mathbf1\mathbf1^\top$ has the eigenvalue $a-b$ in $B-1$ directions and $a+(B-1)b$ in one. All but $B$ of the
# dimensions are such directions. The exact squared error is proportional to $\operatorname{tr}M^{-1}$, the loosened one to $B^2/\operatorname{tr}M=B/a$; divide.
# As $B\to\infty$ it tends to $a/(a-b)$.
# ```
