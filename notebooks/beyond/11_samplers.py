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
# # Batches as loaders draw them
#
# Bounds and accountants assume Poisson sampling: each step draws each record by itself. Loaders shuffle, or take batches of one size. How wrong is a
# Poisson answer for them, and which way? At the end of this page you can say it for a run of your own, in epsilon and in reconstruction.
#
# The theorems are on the page {doc}`../../book/papers/beyond_runs`: {prf:ref}`random allocation <prf-beyond-allocation>`,
# {prf:ref}`fixed sizes <prf-beyond-fixed-size>` and {prf:ref}`shuffling <prf-beyond-shuffling>`.

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
# ## Poisson's answer and the others
#
# Five samplers with equal noise, batch size and steps:
#
# - **Poisson** sampling;
# - **random allocation**, or balls-and-bins: each epoch, every record goes into one batch, drawn uniformly by itself {cite:p}`chua2025balls`;
# - **shuffling**: each epoch, all records are shuffled and cut into batches;
# - batches of **fixed size**, each a new draw without replacement {cite:p}`wang2019subsampled`;
# - **cyclic** batches, in an order that the attacker knows.
#
# In the neighbouring data set a record with zero gradient takes the record's place. The settings are those of
# {ref}`Defaults <exhibit-beyond-defaults>` that belong to tutorials and examples. By hand, a tutorial of
# three epochs of 240 batches:

# %%
from reconrisk import privacy
from reconrisk.privacy import SampledRun

for sampler in ("poisson", "random-allocation", "shuffle", "fixed"):
    run = SampledRun(1.3, sampling_rate=1 / 240, steps=720, sampler=sampler)
    found = privacy.epsilon(run, delta=1e-5)
    print(f"by hand, {sampler}: epsilon from {found.lower:.2f} to {found.upper:.2f}")

# %% tags=["exhibit:beyond/samplers"]
from companion.papers.beyond import samplers

tables = samplers.measure(study)
rows = tables["settings"]
for row in rows[rows["setting"].str.contains("tensorflow.org")].to_dict("records"):
    low, high = row["epsilon, from"], row["epsilon, to"]
    print(f"in the table, {row['sampler']}: epsilon from {low:.2f} to {high:.2f}")
tables.show()
display(samplers.draw(tables))
study.judge(samplers, tables)

# %% [markdown]
# ## What it says
#
# **Random allocation keeps Poisson's promise.** Its epsilon is a little smaller in every setting with a whole number of batches. Success with ten candidates can be a little
# larger: every record takes part in every epoch, where a Poisson sample may leave it out.
#
# **Shuffling and fixed sizes do not.** There are data on which their epsilon is several times Poisson's. The reason is other records: a batch of fixed size that holds
# the record holds one other less, and if that other's gradient opposes the record's, the two together move the sum by two clipping norms. Poisson sampling and random
# allocation let no record displace another.
#
# **What is known of shuffling is an interval.** Its upper end is one full-batch release an epoch. Where it is far from the lower end, nobody knows how much the secret order
# is worth.
#
# **What is assumed.** The worst data: other gradients that all oppose the record's. Data of a real run need not be like that; an epsilon promises something about all data.

# %% [markdown]
# ## Try it
#
# **Compute.** De et al. (2022) train on CIFAR-10 with much noise and large batches, $\sigma=10$, 4,096 of 50,000 records, 875 steps. How wrong would Poisson's
# answer be if the batches had a fixed size?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for sampler in ("poisson", "fixed"):
    found = privacy.epsilon(SampledRun(10.0, 4096 / 50_000, 875, sampler), 1e-5)
    print(f"{sampler}: epsilon from {found.lower:.2f} to {found.upper:.2f}")
print(
    "by a few per cent: where noise is large, a likelihood ratio is nearly linear in the sum, and"
)
print("only the difference between the two data sets counts, one clipping norm in both")

# %% [markdown]
# **Change.** Let batches of fixed size be compared with data that have *another* record in the record's place, instead of one of gradient zero. How much larger is epsilon?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
for adjacency in ("zero-out", "replace", "add-remove"):
    run = SampledRun(1.3, 1 / 240, 720, "fixed", adjacency)
    found = privacy.epsilon(run, 1e-5)
    print(f"{adjacency}: epsilon from {found.lower:.2f} to {found.upper:.2f}")
print("a replaced record moves the sum by two clipping norms, and so does one that takes a place")

# %% [markdown]
# **Prove.** One epoch of random allocation to two batches tells no more than one full-batch release, and less.

# %% [markdown]
# ```{dropdown} Solution
# Whoever is told the batch sees $N(e_i,\sigma^2I)$ against $N(0,\sigma^2I)$, whose trade-off curve is that of one full-batch release, for either $i$. Without being told,
# the likelihood ratio is the mean $\tfrac12(W_1+W_2)$ of two independent ratios, and by Jensen's inequality $E f(\tfrac12(W_1+W_2))\le E f(W_1)$ for every
# convex $f$, those of hockey-stick divergences among them: $f(r)=\max(r-e^\varepsilon,0)$. For a strictly convex $f$, such as $r\log r$, equality would need $W_1=W_2$ almost surely,
# which is so only if $W_i$ is constant: as $\sigma\to\infty$.
# ```
