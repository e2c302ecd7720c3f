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
# # Reconstructions measured over the theory
#
# *From Mean to Extreme*, Section 5 and Appendix C: Figures 2, 4 and 6. Every point is one step of
# DP-SGD through the manipulated network. In the quick profile the photographs are those that
# scikit-image ships, not ImageNet.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's photographs (paper profile)
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
# ## Figure 2: three regimes of the clipping norm

# %% tags=["exhibit:mean_to_extreme/fig2", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("mean_to_extreme/fig2"))

# %% [markdown]
# ## Figure 4: six similarities
#
# NMI, SSIM and a perceptual loss have no bound; do they follow the ones that have? LPIPS needs
# pretrained weights. Where these cannot be loaded the same code runs on an untrained network, and
# the axis says so.

# %% tags=["exhibit:mean_to_extreme/fig4", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("mean_to_extreme/fig4"))

# %% [markdown]
# ## Figure 6: no threshold for all

# %% tags=["exhibit:mean_to_extreme/fig6", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("mean_to_extreme/fig6"))
