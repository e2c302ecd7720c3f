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
# ## Figure 2: three regimes of the clipping norm
#
# When does a reconstruction follow the theory? A hundred synthetic records are rebuilt from one
# step each, for many noise multipliers and three clipping norms: the smallest norm of the records,
# a norm that only a gradient of several rows reaches, and one that no gradient reaches. The boxes
# of the first two rows should lie on the dark band; those of the third, where nothing is clipped,
# should not.

# %%
from reconrisk import bounds

print(f"NCC at N = 4, sigma = 2, printed bound by hand: {1 / (1 + 4 * 2.0**2) ** 0.5:.4f}")
print(f"largest expectation by hand: {float(bounds.expected_ncc(4, 2.0)):.4f}")

# %% tags=["exhibit:mean_to_extreme/fig2"]
from companion.papers.mean_to_extreme import fig2

tables = fig2.measure(study)
at_two = tables["expected"].iloc[-1]
print(f"NCC at N = 4, sigma = 2, printed bound in the figure: {at_two['ncc bound']:.4f}")
print(f"largest expectation in the figure: {at_two['ncc exact, data-free']:.4f}")
display(fig2.draw(tables))
study.judge(fig2, tables)

# %% [markdown]
# ## Figure 4: six similarities
#
# NMI, SSIM and a perceptual loss have no bound. Do they follow the metrics that have one? LPIPS
# needs pretrained weights. Where these cannot be loaded, the same code runs on an untrained
# network, and the axis says so.

# %%
import numpy as np
import torch

from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

# where the gradient is clipped, ten times the noise is 20 dB for every picture
picture = torch.rand(1, 224 * 224 * 3, generator=torch.Generator().manual_seed(1))
psnr = []
for sigma in (1e-3, 1e-2):
    update = observe(picture, DPSGD(sigma, max_grad_norm=1.0), torch.Generator().manual_seed(2))
    psnr.append(metrics.psnr(picture.numpy()[0], known_scale(update).numpy()[0], 1.0))
print(f"PSNR from sigma = 0.001 to 0.01, by hand: {np.diff(psnr)[0]:.1f} dB")

# %% tags=["exhibit:mean_to_extreme/fig4"]
from companion.papers.mean_to_extreme import fig4

tables = fig4.measure(study)
psnr = tables["metrics"].groupby("sigma")["psnr"].mean()
print(f"PSNR from sigma = 0.001 to 0.01, in the figure: {psnr[1e-2] - psnr[1e-3]:.1f} dB")
display(fig4.draw(tables))
study.judge(fig4, tables)

# %% [markdown]
# ## Figure 6: no threshold for all
#
# Is there one value of a metric beyond which a reconstruction is a success? The same picture is
# rebuilt in three scenarios: large, large in other units, and small. The metrics at which a picture
# is lost differ between the rows.

# %%
import torch

from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

picture = torch.rand(1, 224 * 224 * 3, generator=torch.Generator().manual_seed(1)).double()
mse = []
for record in (picture, 255 * picture):
    update = observe(record, DPSGD(1e-3, max_grad_norm=1.0), torch.Generator().manual_seed(2))
    mse.append(metrics.mse(record.numpy()[0], known_scale(update).numpy()[0]))
print(f"MSE in units of 255 over that in units of 1, by hand: {mse[1] / mse[0]:.0f}")

# %% tags=["exhibit:mean_to_extreme/fig6"]
from companion.papers.mean_to_extreme import fig6

tables = fig6.measure(study)
mse = tables["metrics"].query("sigma == 0.001").set_index("scenario")["mse"]
print(f"MSE in units of 255 over that in units of 1, in the figure: {mse[2] / mse[1]:.0f}")
display(fig6.draw(tables))
study.judge(fig6, tables)
