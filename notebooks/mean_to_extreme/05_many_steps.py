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
# # Many steps
#
# *From Mean to Extreme*, Section 4.3. An attacker who meets a record in several steps can average
# its reconstructions. The paper leaves open what this means when the steps sample their records;
# the answer is an exact mixture.

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
# ## Averaging, and the probability of selection
#
# {prf:ref}`Proposition 7 <prf-mean_to_extreme-prop7>`. The printed probability of exactly $k$
# selections lacks the factor for the steps that do *not* select the record.

# %% tags=["exhibit:mean_to_extreme/prop7"]
from companion.papers.mean_to_extreme import prop7

tables = prop7.measure(study)
study.judge(prop7, tables)

# %% [markdown]
# ## The exact mixture
#
# With $K \sim \mathrm{Binomial}(T, 1/|D|)$ selections and $F_k$ the tail of an average of $k$,
#
# $$
# P(\mathrm{MSE} \le \eta) = \sum_{k=1}^{T} \binom{T}{k} |D|^{-k}(1-1/|D|)^{T-k}\,F_k(\eta),
# $$ (eq-beyond-mixture)
#
# with no success when the record is never selected. {py:func}`reconrisk.bounds.mse_tail_sampled`
# sums it in logarithms.

# %%
from reconrisk import bounds

# N = 64, sigma = 0.05, ||X|| = 1; 1,000 steps, each of which picks one of 100 records
print(f"by hand: {bounds.mse_tail_sampled(0.02 / 64, 64, 0.05, 1.0, 1000, 1 / 100):.6f}")

# %% tags=["exhibit:beyond/many_steps"]
from companion.papers.beyond import many_steps

tables = many_steps.measure(study)
row = tables["mixture"].query("T == 1000 and `|D|` == 100").iloc[0]
print(f"in the figure: {row['P(MSE <= eta)']:.6f}")
display(many_steps.draw(tables))
study.judge(many_steps, tables)
