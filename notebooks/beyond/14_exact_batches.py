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
# # Whole batches, exactly
#
# A gradient of one record at a linear layer gives the record away: divide the weights' gradient by the biases'. With several records in the batch the same
# division gives a mean of them, and it was long thought that batches protect. Behind a ReLU they do not. At the end of this page you can take a batch apart with
# linear algebra alone, say when that works, and tell a right answer from a wrong one without knowing the batch.
#
# The attack is SPEAR {cite:p}`dimitrov2024spear`; a search by descent for larger batches follows an idea of SPEAR++ {cite:p}`bakarsky2025spear`. What it rests on
# is on the page {doc}`../../book/papers/beyond_batches`: {prf:ref}`when zeros determine a batch <prf-beyond-sparse_batches>`.

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
# ## Zeros take a batch apart
#
# The gradient of a layer with weights and biases is $G=D\tilde X^\top$: a column of $D$ for every record, the loss's derivatives in the layer's outputs, and the
# record with an appended one as a column of $\tilde X$. Its rank is the batch's size $b$, and its singular value decomposition gives $D$ up to an invertible
# $b\times b$ matrix. Every such matrix explains the gradient equally well. But ReLU makes about half of each column of $D$ zero:
#
# 1. choose $b-1$ rows; the vector in the columns' span that vanishes on them is a column of $D$ if that column is zero there;
# 2. it then has as many zeros as the record has idle units, and a half-space of the records' span separates them from the others;
# 3. with all columns the records follow, each divided by its last entry; run the network on them and check
#    that the right units are idle.
#
# By hand, for a batch of two, where one row of $G$ is enough to choose:

# %%
import numpy as np
import torch

from companion.papers.beyond import exact_batches
from reconrisk import attacks

rng = np.random.default_rng(0)
records, weights, biases = rng.random((2, 9)), rng.normal(size=(40, 9)), rng.normal(size=40)
active = weights @ records.T + biases[:, None] > 0
signals = rng.normal(size=(40, 2)) * active
gradient = signals @ np.column_stack([records, np.ones(2)])

left, sizes, right = np.linalg.svd(gradient, full_matrices=False)
span = left[:, :2]
columns = []
alive = np.abs(span).max(axis=1) > 1e-9  # units that some record switches on
for row in np.flatnonzero(alive):
    vector = span @ [span[row, 1], -span[row, 0]]  # vanishes on this row
    if (np.abs(vector[alive]) < 1e-12).sum() > 3:
        columns.append(vector / np.linalg.norm(vector))
first = columns[0]
second = next(c for c in columns if abs(c @ first) < 0.999)
found = np.linalg.pinv(np.column_stack([first, second])) @ gradient
found = found[:, :-1] / found[:, -1:]
error = min(np.abs(found - records).max(), np.abs(found[::-1] - records).max())
print(f"by hand: rank {int((sizes > 1e-9).sum())}, largest error below 1e-9: {error < 1e-9}")

library = attacks.sparse_batch_attack(
    *(torch.as_tensor(a) for a in (gradient[:, :-1], gradient[:, -1], weights, biases)),
    generator=torch.Generator().manual_seed(0),
    search="sampling",
)
nearest = torch.cdist(torch.as_tensor(records), library.inputs).amin(dim=1)
print(f"by the library: rank {library.rank}, error below 1e-9: {bool((nearest < 1e-9).all())}")

# %% tags=["exhibit:beyond/exact_batches"]
tables = exact_batches.measure(study)
display(exact_batches.draw(tables))
study.judge(exact_batches, tables)

# %% [markdown]
# ## What it says
#
# **Batches do not protect.** Averaging hides records from the layer's ratio. A search that compares gradients comes as near as its iterations allow, if it has
# the gradient of every layer and the labels. An attacker who uses which units were idle is exact, and needs neither: no labels, no loss, no layer behind the first.
#
# **A small residual proves nothing.** Any mixture of the records explains the layer's gradient to rounding. What certifies a batch is the forward pass: thousands
# of units must be on and off as the zeros say. An activation without zeros, a sigmoid for instance, leaves the attacker with the span of the records, and with the
# knowledge that there is no more.
#
# **Clipping does not help, width does not either.** Each record's gradient keeps its direction when it is clipped as a whole. A wide layer has zeros to spare; what
# stops the attack is a layer hardly wider than the batch is large.
#
# **Noise does.** Far below what DP-SGD adds, the zeros drown and with them the attack. As long as they can be seen, the records come back with the least error that an
# unbiased attacker can have who knows $D$.
#
# **What is assumed.** The layer has biases, of which the gradient is seen, and inputs go into it directly; behind other layers the attack returns features. With
# zero biases the forward pass cannot see how bright a record is, which matters where weights and biases were clipped separately: the attack returns such a batch, and
# does not certify it. At few units per record a wrong batch can pass by chance.

# %% [markdown]
# ## Try it
#
# **Compute.** How many choices of rows does it take on average to find all columns of a batch of 20, in a layer of 1,000 units of which each record idles half?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
chance = attacks.sparse_hit_probability(500, 1000, 20)
print(f"one column: {chance:.2e}; all: {attacks.expected_sparse_trials([chance] * 20):.2e} choices")

# %% [markdown]
# **Change.** Replace ReLU by its leaky version in the example by hand (slope 0.2 below zero). What does the attack say, and why?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
leaky = rng.normal(size=(40, 2)) * np.where(active, 1.0, 0.2)
leaked = leaky @ np.column_stack([records, np.ones(2)])
answer = attacks.sparse_batch_attack(
    *(torch.as_tensor(a) for a in (leaked[:, :-1], leaked[:, -1], weights, biases)),
    generator=torch.Generator().manual_seed(0),
    search="sampling",
    trials=8192,
)
print(f"{answer.certified}: {answer.found} of {answer.rank} directions; no column has a zero")

# %% [markdown]
# **Prove.** If all columns of $D$ but one are known up to their scale, which record can be computed?

# %% [markdown]
# ```{dropdown} Solution
# The one whose column is missing, and no other. Write the columns of $D$ as $U q_i$ with orthonormal $U$; record $i$ is, up to its scale, row $i$ of $Q^{-1}$ times what
# the decomposition leaves, and row $i$ of $Q^{-1}$ is orthogonal to all $q_j$ with $j\ne i$. For the missing column these are all known: the row follows up to its
# scale, and the scale from the last entry, one. For any other record one of the $q_j$ is missing. From that record's forward pass its zeros follow, and from them the
# missing column: the attack finishes batches this way.
# ```
