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
# ## Table 1
#
# Three printed numbers, compared digit by digit.

# %% tags=["exhibit:example2026/table1", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("example2026/table1"))
