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
# # Photographs
#
# Ziller et al., Section 3 and Appendix B. The projection attack on photographs, one DP-SGD step
# for every picture, clipping norm $C$ and noise multiplier $\sigma$. The paper prints neither its
# values of $C$ nor those of $\sigma$; here $C$ is set relative to the pictures' norms, below, at
# and above them. The quick profile uses the photographs that come with scikit-image; the paper
# profile reads an ImageNet-style folder from `data_root`. The laws that the measurements follow
# are on {doc}`the page before <01_bounds>`.

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
# ## Many pictures
#
# ### Figure 1: MSE, PSNR and NCC
#
# Once $C \ge \max\lVert X\rVert$ nothing is clipped and the bounds on MSE and PSNR
# ({eq}`eq-ziller2024-5`, {eq}`eq-ziller2024-6`) are met; below, the bias of
# {prf:ref}`Proposition 1 <prf-ziller2024-prop1>` takes over. With the NCC it is the other way round: its bound
# {eq}`eq-ziller2024-8` is near while everything is clipped and far above the data once $C$ exceeds
# their norm. What is left of the gap at small $C$ is the contrast
# $\lVert x-\bar x\rVert/\lVert x\rVert$ and vanishes for centred pictures.

# %% tags=["exhibit:ziller2024/fig1", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("ziller2024/fig1"))

# %% [markdown]
# ### Figure 4: NMI, SSIM and a perceptual distance
#
# The same reconstructions, judged by what has no bound. LPIPS needs a pretrained network; where its
# weights are not at hand, the same code runs on an untrained one, which orders noise levels but
# does not give LPIPS values.

# %% tags=["exhibit:ziller2024/fig4", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("ziller2024/fig4"))

# %% [markdown]
# ## One picture at three resolutions
#
# ### Figure 3: the metrics
#
# The norm grows with the number of pixels, so one $C$ clips a large picture and leaves a small one
# alone.

# %% tags=["exhibit:ziller2024/fig3", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("ziller2024/fig3"))

# %% [markdown]
# ### Figure 5: a very small clipping norm
#
# Black to the eye, and to the MSE; but the factor that was lost is one number. Dividing by it gives
# exactly what $C = \lVert X\rVert$ would have released.

# %% tags=["exhibit:ziller2024/fig5", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("ziller2024/fig5"))

# %% [markdown]
# ### Figure 6: only the lowest resolution is not clipped

# %% tags=["exhibit:ziller2024/fig6", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("ziller2024/fig6"))

# %% [markdown]
# ### Figure 7: only the highest resolution is clipped
#
# The paper sees more noise in the first row than in the second. Per pixel the two carry the same
# noise, $C\sigma$; seen at one size, the larger picture averages it away.

# %% tags=["exhibit:ziller2024/fig7", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("ziller2024/fig7"))

# %% [markdown]
# ### Figure 8: a very large clipping norm

# %% tags=["exhibit:ziller2024/fig8", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("ziller2024/fig8"))
