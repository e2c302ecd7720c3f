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
# At the end of this page you know how an attacker reads the records out of a wide two-layer network,
# and how its error grows under each defence, measured beside what is printed.
#
# Liu et al., Section 3 and Appendices B and C. In a two-layer network with random weights the gradient of
# the output weights is a function of Gaussian vectors that the attacker knows. Its moments with Hermite
# polynomials are sums of powers of the records, by Stein's lemma, and a tensor decomposition recovers them.
# The paper bounds the error of this attack under every defence ({ref}`Table 1 <exhibit-liu2024-table1>`),
# without an experiment. On this page every bound is measured: exponents are fitted to the errors of
# independent networks, with intervals. An upper bound holds if the error grows no faster than it says, and
# we say where it grows more slowly. Where exponents are fitted the records are orthonormal, so that one factor
# varies at a time, and the activation is $\max(z - 1, 0)$, for which networks of a quick run's size are in the asymptotic regime. That
# regime, a mean error below 0.35, was fixed beforehand.

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
# ## Figure 1: an inverse problem
#
# The paper's diagram, in a design of our own: a batch is an unknown signal and its gradient the forward
# map; a defence changes what is observed, and an attack inverts the map. One batch passes through all
# parts. The same records in another order have the same gradient, so errors are measured in the best order. Without a
# defence the problem is solved exactly; with noise the error is that of the {term}`Cramér–Rao bound`.

# %%
import numpy as np
from reconrisk.attacks import refine_records, tensor_attack
from reconrisk.metrics import match
from reconrisk.two_layer import TwoLayer, release_output_gradient

x = np.random.default_rng(0).standard_normal((3, 16))
x /= np.linalg.norm(x, axis=1, keepdims=True)
network = TwoLayer(16, 4000, "elu", seed=1)
gradient = release_output_gradient(network, x, np.array([1.0, -1.0, 1.0]))
found = refine_records(network, gradient, tensor_attack(network, gradient, 3))
print(f"error without a defence, by hand: {np.sqrt(match(x, found.inputs).mse.mean() * 16):.5f}")

# %% tags=["exhibit:liu2024/fig1"]
from companion.papers.liu2024 import fig1

tables = fig1.measure(study)
print(f"error without a defence, in the exhibit: {tables['chains']['undefended'].max():.5f}")
display(fig1.draw(tables))
study.judge(fig1, tables)

# %% [markdown]
# ## The attack
#
# ### The algorithm
#
# The attack takes two moments, $P$ and $T(V, V, V)$, the leading eigenvectors $V$ of the first, and the
# components of the second ({func}`reconrisk.attacks.tensor_attack`). Where a mean derivative of the
# activation vanishes, the next order takes its place, contracted with a vector: the third vanishes for ReLU,
# GELU and similar functions, the second for odd ones. With orders 2 and 3 the attack recovers directions
# with their signs. The smaller of the two coefficients decides how wide the network must be.
#
# The same attack shows that secure aggregation protects no better than a large batch: what the server sees
# *is* the gradient of one.
#
# The first step by hand: for one record, the neurons' mean of $g_j(w_j w_j^\top - I)$ has one eigenvalue that
# is not near zero. Divided by the residual it is $\nu$, the mean second derivative of the activation.

# %%
import numpy as np
from reconrisk.two_layer import TwoLayer, release_output_gradient

network = TwoLayer(8, 131072, "relu_shifted", seed=1)
gradient = release_output_gradient(network, np.eye(8)[:1], np.array([1.0]))
w = np.concatenate([part.inner for part in network.neurons()])
moment = (w.T * gradient.values) @ w / len(w) - gradient.values.mean() * np.eye(8)
eigenvalues = np.linalg.eigvalsh(moment)
nu = eigenvalues[np.abs(eigenvalues).argmax()] / gradient.residuals[0]
print(f"nu of relu_shifted, by hand: {nu:.2f}")

# %% tags=["exhibit:liu2024/alg_tensor"]
from companion.papers.liu2024 import alg_tensor

tables = alg_tensor.measure(study)
nus = tables["activations"].set_index("activation")["nu"]
print(f"nu of relu_shifted, in the table: {nus['relu_shifted']:.2f}")
tables.show()
study.judge(alg_tensor, tables)

# %% [markdown]
# ### Theorem 3.1: the error without defence
#
# {prf:ref}`The order <prf-liu2024-thm3_1>` is $B\sqrt{d/m}$. We find the root of $d/m$. In $B$ the error
# grows more slowly, about as the root of $B$ where labels are random: the noise of the moments has the size
# of a gradient's entry, and entries of random signs add up like a random walk.

# %% tags=["exhibit:liu2024/thm3_1"]
from companion.papers.liu2024 import thm3_1

tables = thm3_1.measure(study)
display(thm3_1.draw(tables))
tables.show()
study.judge(thm3_1, tables)

# %% [markdown]
# ### Theorem B.6: with all factors
#
# {prf:ref}`The full statement <prf-liu2024-thmB6>` has $\pi_{\min}$, the records' smallest singular value,
# squared in the denominator, and requires batches of order $d^{1/4}$ at most. The constant is not given; if it is one, batches have
# less than five records of 512 features. The orders that we find are the same beyond that.

# %% tags=["exhibit:liu2024/thmB6"]
from companion.papers.liu2024 import thmB6

tables = thmB6.measure(study)
study.judge(thmB6, tables)

# %% [markdown]
# ## Table 1
#
# All orders, with the measured exponents. The upper row of the printed table is missing in our text of the
# paper, and taken from the propositions. The lower row is the Cramér–Rao bound of the same networks
# ({func}`reconrisk.bounds.cramer_rao_error`), the subject of {doc}`the next page <02_lower_bounds>`. Look for
# two things in the picture. With clipping *and* noise at fixed $C$ and $\sigma_0$, neither row falls much with the
# width, because the gradient's norm grows as $\sqrt m$, which cancels the factor $\sqrt{1/m}$. And the rows
# match in $d$ and $m$, as the abstract says. In $B$ they differ, and without noise the lower bound is zero,
# which the tensor attack does not attain and {doc}`a better one <03_a_stronger_attack>` does.
#
# One exponent by hand: the exact lower bound without a defence, at two widths.

# %%
import numpy as np
from reconrisk import bounds
from reconrisk.two_layer import TwoLayer, gradient_jacobians, release_output_gradient

x, errors = np.eye(16)[:3], []
for m in (4096, 16384):
    network = TwoLayer(16, m, "relu_shifted", seed=1)
    gradient = release_output_gradient(network, x, np.array([1.0, -1.0, 1.0]))
    information = bounds.gradient_information(gradient_jacobians(network, x, gradient))
    errors.append(bounds.cramer_rao_error(information, noise_std=1.0, inputs=x))
print(f"exponent of m in the lower bound, by hand: {np.log(errors[1] / errors[0]) / np.log(4):.1f}")

# %% tags=["exhibit:liu2024/table1"]
from companion.papers.liu2024 import table1

tables = table1.measure(study)
exponents = tables["lower exponents"].set_index("exponent of")["value"]
print(f"exponent of m in the lower bound, in the table: {exponents['none m']:.1f}")
display(table1.draw(tables))
tables.show()
study.judge(table1, tables)

# %% [markdown]
# ## The defences one by one
#
# ### Local aggregation
#
# Two local steps leave the orders unchanged ({prf:ref}`Proposition 3.1 <prf-liu2024-prop3_1>`,
# {prf:ref}`C.1 <prf-liu2024-propC1>`). At the proposition's learning rates the second gradient
# equals the first, as Section 3.1 says, so nothing could change. We also try rates that halve the
# residuals, where the outcome is not obvious. Two steps on two parts of a batch act as one step on the
# whole ({prf:ref}`Proposition C.2 <prf-liu2024-propC2>`).

# %% tags=["exhibit:liu2024/prop3_1"]
from companion.papers.liu2024 import prop3_1

tables = prop3_1.measure(study)
study.judge(prop3_1, tables)

# %% tags=["exhibit:liu2024/propC1"]
from companion.papers.liu2024 import propC1

tables = propC1.measure(study)
study.judge(propC1, tables)

# %% tags=["exhibit:liu2024/propC2"]
from companion.papers.liu2024 import propC2

tables = propC2.measure(study)
study.judge(propC2, tables)

# %% [markdown]
# ### Clipping and noise
#
# {prf:ref}`Clipping <prf-liu2024-propC11>` multiplies both moments by one number, and the attack returns
# the same records. {prf:ref}`Noise <prf-liu2024-propC12>` adds to the noise of the moments themselves;
# where it dominates, the error grows in proportion to it. {prf:ref}`Both together <prf-liu2024-propC13>` act as noise that is $\|G\|/C$ times as large,
# which is what {prf:ref}`Proposition 3.3 <prf-liu2024-prop3_3>` says of DP-SGD.

# %% tags=["exhibit:liu2024/propC11"]
from companion.papers.liu2024 import propC11

tables = propC11.measure(study)
study.judge(propC11, tables)

# %% tags=["exhibit:liu2024/propC12"]
from companion.papers.liu2024 import propC12

tables = propC12.measure(study)
study.judge(propC12, tables)

# %% tags=["exhibit:liu2024/propC13"]
from companion.papers.liu2024 import propC13

tables = propC13.measure(study)
study.judge(propC13, tables)

# %% tags=["exhibit:liu2024/prop3_3"]
from companion.papers.liu2024 import prop3_3

tables = prop3_3.measure(study)
study.judge(prop3_3, tables)

# %% [markdown]
# ## What the proofs use
#
# ### Decomposition, Bernstein's inequality, Stein's lemma
#
# {prf:ref}`The error of a perturbed decomposition <prf-liu2024-thmB1>` is linear in the perturbation.
# {prf:ref}`Bernstein's inequality <prf-liu2024-lemB2>` is printed without a constant, and needs one.
# {prf:ref}`Stein's lemma <prf-liu2024-lemB3>` turns moments into derivatives, also at a kink.

# %% tags=["exhibit:liu2024/thmB1"]
from companion.papers.liu2024 import thmB1

tables = thmB1.measure(study)
study.judge(thmB1, tables)

# %% tags=["exhibit:liu2024/lemB2"]
from companion.papers.liu2024 import lemB2

tables = lemB2.measure(study)
study.judge(lemB2, tables)

# %% tags=["exhibit:liu2024/lemB3"]
from companion.papers.liu2024 import lemB3

tables = lemB3.measure(study)
study.judge(lemB3, tables)

# %% [markdown]
# ### How the moments concentrate
#
# The error of {prf:ref}`P <prf-liu2024-lemB4>` falls as the root of $d/m$. That of
# {prf:ref}`T(V, V, V) <prf-liu2024-lemB5>`, a tensor in $B$ dimensions, does not depend on $d$.

# %% tags=["exhibit:liu2024/lemB4"]
from companion.papers.liu2024 import lemB4

tables = lemB4.measure(study)
study.judge(lemB4, tables)

# %% tags=["exhibit:liu2024/lemB5"]
from companion.papers.liu2024 import lemB5

tables = lemB5.measure(study)
study.judge(lemB5, tables)

# %% [markdown]
# ### What a local step changes
#
# At the stated rates every change is of order $1/m$. Our records overlap and have equal labels, the case with
# the largest factors of $B$. The bounds' factors of $d$ are generous, since the mean changes in few directions.

# %% tags=["exhibit:liu2024/lemC4"]
from companion.papers.liu2024 import lemC4

tables = lemC4.measure(study)
study.judge(lemC4, tables)

# %% tags=["exhibit:liu2024/lemC5"]
from companion.papers.liu2024 import lemC5

tables = lemC5.measure(study)
study.judge(lemC5, tables)

# %% tags=["exhibit:liu2024/corC6"]
from companion.papers.liu2024 import corC6

tables = corC6.measure(study)
study.judge(corC6, tables)

# %% tags=["exhibit:liu2024/lemC7"]
from companion.papers.liu2024 import lemC7

tables = lemC7.measure(study)
study.judge(lemC7, tables)

# %% tags=["exhibit:liu2024/lemC8"]
from companion.papers.liu2024 import lemC8

tables = lemC8.measure(study)
study.judge(lemC8, tables)

# %% tags=["exhibit:liu2024/lemC9"]
from companion.papers.liu2024 import lemC9

tables = lemC9.measure(study)
study.judge(lemC9, tables)

# %% tags=["exhibit:liu2024/lemC10"]
from companion.papers.liu2024 import lemC10

tables = lemC10.measure(study)
study.judge(lemC10, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** ReLU becomes softplus, its smooth version. How many times as wide must the network be for the same error of the tensor attack, by the order
# of {prf:ref}`Theorem 3.1 <prf-liu2024-thm3_1>` with the coefficients of the two moments?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from reconrisk import special

least = {}
for name in ("relu", "softplus"):
    orders = special.tensor_orders(name)
    least[name] = min(abs(special.hermite_coefficient(name, order)) for order in orders)
    print(f"{name}: orders {orders}, smaller coefficient {least[name]:.3f}")
print(
    f"{(least['relu'] / least['softplus']) ** 2:.0f} times: the error goes with 1 / coefficient / sqrt(m)"
)

# %% [markdown]
# **Change.** Let the two records of a batch, of the same label, resemble each other instead of being orthonormal. What happens to the attack on a network of the same
# width?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for cosine in (0.0, 0.9):
    pair, errors = np.eye(8)[:2], []
    pair[1] = cosine * pair[0] + np.sqrt(1 - cosine**2) * pair[1]
    for number in (1, 2, 3):
        network = TwoLayer(8, 65_536, "relu_shifted", seed=number)
        gradient = release_output_gradient(network, pair, np.array([1.0, 1.0]))
        found = tensor_attack(network, gradient, 2)
        errors.append(np.sqrt(match(pair, found.inputs).mse.mean() * 8))
    smallest = np.linalg.svd(pair)[1][-1]
    print(f"cosine {cosine}: error {np.mean(errors):.2f}, smallest singular value {smallest:.2f}")
print("this is the factor that the bound's smallest singular value stands for")

# %% [markdown]
# **Prove.** The mean of the first moment for one record $x$ of norm one and residual $r$, $\mathbb E\,r\varphi(w^\top x)(ww^\top-I)$, is
# $r\,\mathbb E[\varphi(z)(z^2-1)]\,xx^\top$ with $z$ standard normal, for every activation $\varphi$, with derivatives or not.

# %% [markdown]
# ```{dropdown} Solution
# Write $w=zx+u$ with $z=w^\top x$ and $u\perp x$; $z$ and $u$ are independent, $\mathbb Eu=0$ and $\mathbb Euu^\top=I-xx^\top$. Then
# $ww^\top-I=(z^2-1)\,xx^\top+z\,(xu^\top+ux^\top)+(uu^\top-(I-xx^\top))$. Multiplied by $\varphi(z)$, the second and third terms have mean zero,
# since $u$ is independent of $z$. What is left is $\mathbb E[\varphi(z)(z^2-1)]\,xx^\top$, one direction alone, which Stein's lemma calls
# $\mathbb E\varphi''(z)\,xx^\top$ where $\varphi$ has derivatives.
# ```
