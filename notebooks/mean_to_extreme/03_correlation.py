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
# {prf:ref}`Proposition 6 <prf-mean_to_extreme-prop6>`.

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
# a non-central $t$ variable. Its tail is an $(\eta,\gamma)$-ReRo statement for the NCC, and with
# $\delta = 1/\sigma$ one that needs no data: {py:func}`reconrisk.bounds.ncc_tail`.

# %%
from reconrisk import bounds

print(f"by hand: {bounds.ncc_tail(0.55, 64, 0.5):.6f}")  # whatever the data

# %% tags=["exhibit:beyond/ncc_law"]
from companion.papers.beyond import ncc_law

tables = ncc_law.measure(study)
row = tables["data-free"].query("0.54 < threshold < 0.56").iloc[0]
print(f"in the exhibit: {row['tail']:.6f}")
display(ncc_law.draw(tables))
study.judge(ncc_law, tables)

# %% [markdown]
# ## How often the printed bound is exceeded
#
# {prf:ref}`Proposition 6 <prf-mean_to_extreme-prop6>` bounds a ratio of population moments. How
# many single reconstructions have a larger NCC? The exact tail at the bound gives the share at any
# dimension. It tends to one half, and the expectation is above the bound as well.

# %%
from reconrisk import bounds

bound = bounds.ncc_bound_paper(10, 1.0)  # N = 10, sigma = 1
print(f"by hand: {bounds.ncc_tail(bound, 10, 1.0):.6f}")

# %% tags=["exhibit:beyond/ncc_exceedance"]
from companion.papers.beyond import ncc_exceedance

tables = ncc_exceedance.measure(study)
row = tables["exceedance"].query("N == 10 and sigma == 1").iloc[0]
print(f"in the figure: {row['share above']:.6f}")
display(ncc_exceedance.draw(tables))
study.judge(ncc_exceedance, tables)
