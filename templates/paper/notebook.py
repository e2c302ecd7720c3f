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
# # Randomised answers
#
# A question is answered truly as often as $\varepsilon$ allows, and otherwise falsely.

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
# ## Table 1
#
# With what probability is an answer the true one? With randomised response at most
# $e^\varepsilon/(1+e^\varepsilon)$. The paper prints this number for three values of
# $\varepsilon$; each is compared to its last printed digit, and with simulated answers.

# %%
import numpy as np

# the table's second row, epsilon = 1
odds = np.exp(1.0)
print(f"by hand: {odds / (1 + odds):.2f}")

# %% tags=["exhibit:example2026/table1"]
from companion.papers.example2026 import table1

tables = table1.measure(study)
row = tables["shares"].query("epsilon == 1").iloc[0]
print(f"in the table: {row['share']:.2f}")
display(table1.draw(tables))
study.judge(table1, tables)
