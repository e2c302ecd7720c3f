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
# At the end of this page you know what the projection attack leaves of a photograph, and how clipping
# norm, noise and resolution decide it.
#
# Ziller et al., Section 3 and Appendix B. The projection attack on photographs, one DP-SGD step
# for every picture, clipping norm $C$ and noise multiplier $\sigma$. The paper prints neither its
# values of $C$ nor those of $\sigma$; here $C$ is set relative to the pictures' norms, below, at
# and above them. The quick profile uses the first of twenty ImageNet photographs that come
# with a package; the paper profile reads an ImageNet-style folder from `data_root`. The laws that the measurements follow
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
# ## Many pictures
#
# ### Figure 1: MSE, PSNR and NCC
#
# Once $C \ge \max\lVert X\rVert$ nothing is clipped and the bounds on MSE and PSNR
# ({eq}`eq-ziller2024-5`, {eq}`eq-ziller2024-6`) are met; below, the bias of
# {prf:ref}`Proposition 1 <prf-ziller2024-prop1>` takes over. With the NCC it is the other way
# round: its bound {eq}`eq-ziller2024-8` is up to about twice the data while everything is clipped and far above them
# once $C$ exceeds their norm. The gap that remains at small $C$ comes from the contrast
# $\lVert x-\bar x\rVert/\lVert x\rVert$ and vanishes for centred pictures.

# %%
import torch

from reconrisk import DPSGD, bounds, metrics
from reconrisk.attacks import observe, unscaled

# a centred picture that is clipped reaches the bound of its dimension
record = torch.rand(1, 224 * 224 * 3, generator=torch.Generator().manual_seed(1))
record -= record.mean()
run = DPSGD(1e-3, max_grad_norm=float(record.norm()) / 100)
rebuilt = unscaled(observe(record, run, torch.Generator().manual_seed(2)))
print(f"NCC at sigma = 0.001, by hand: {metrics.ncc(record.numpy()[0], rebuilt.numpy()[0]):.2f}")
print(f"its bound, by hand: {float(bounds.ncc_bound_paper(record.numel(), 1e-3)):.4f}")

# %% tags=["exhibit:ziller2024/fig1"]
from companion.papers.ziller2024 import fig1

tables = fig1.measure(study)
centred = tables["centred"].query("sigma == 0.001")
print(f"NCC at sigma = 0.001, photographs less their mean: {centred['NCC'].mean():.2f}")
print(f"its bound, in the figure: {centred['bound NCC'].iloc[0]:.4f}")
display(fig1.draw(tables))
study.judge(fig1, tables)

# %% [markdown]
# ### Figure 4: NMI, SSIM and a perceptual distance
#
# The same reconstructions, measured by metrics without a bound. The NMI orders all settings as the
# NCC does and tends to one, as the paper says. Over small $\sigma$ it falls where the NCC still stands near
# one; the grid of noises, which the paper does not print, decides how alike the curves look. The paper's
# perceptual loss has a trained network. {ref}`ST-LPIPS <lpips-weights>` has one and decides.

# %%
import torch

from reconrisk import DPSGD, metrics
from reconrisk.attacks import observe, unscaled

picture = torch.rand(1, 224 * 224 * 3, generator=torch.Generator().manual_seed(1))
run = DPSGD(0.1, max_grad_norm=float(picture.norm()))
rebuilt = unscaled(observe(picture, run, torch.Generator().manual_seed(2)))
by_hand = metrics.nmi(picture.numpy()[0], rebuilt.numpy()[0], 100)
print(f"NMI at sigma = 0.1, by hand: {by_hand:.1f}")

# %% tags=["exhibit:ziller2024/fig4"]
from companion.papers.ziller2024 import fig4

tables = fig4.measure(study)
noisiest = tables["metrics"].query("sigma == 0.1 and row == 'max'")
print(f"NMI at sigma = 0.1, in the figure: {noisiest['NMI'].mean():.1f}")
display(fig4.draw(tables))
study.judge(fig4, tables)

# %% [markdown]
# ## One picture at three resolutions
#
# ### Figure 3: the metrics
#
# The norm grows with the number of pixels, so one $C$ clips a large picture and leaves a small one
# alone.

# %%
from reconrisk import bounds

for side in (32, 1024):
    by_hand = float(bounds.ncc_bound_paper(3 * side**2, 1e-3))
    print(f"bound on the NCC at {side} pixels a side, sigma = 0.001, by hand: {by_hand:.4f}")

# %% tags=["exhibit:ziller2024/fig3"]
from companion.papers.ziller2024 import fig3

tables = fig3.measure(study)
bound = tables["metrics"].query("sigma == 0.001").groupby("size")["bound NCC"].first()
for side in (32, 1024):
    print(
        f"bound on the NCC at {side} pixels a side, sigma = 0.001, in the figure: {bound[side]:.4f}"
    )
display(fig3.draw(tables))
study.judge(fig3, tables)

# %% [markdown]
# ### Figure 5: a very small clipping norm
#
# The pictures look black and their MSE is large, but clipping lost only one number, its factor.
# Dividing by it gives exactly what $C = \lVert X\rVert$ would have released.

# %%
import torch

from reconrisk import DPSGD
from reconrisk.attacks import observe, unscaled

picture = torch.rand(1, 3072, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
norm = float(picture.norm())
small, whole = (
    unscaled(observe(picture, DPSGD(1e-4, max_grad_norm=c), torch.Generator().manual_seed(2)))
    for c in (0.01 * norm, norm)
)
print("rescaled it is that of C = ||X||, by hand:", bool((small / 0.01 - whole).abs().max() < 1e-9))

# %% tags=["exhibit:ziller2024/fig5"]
from companion.papers.ziller2024 import fig5

tables = fig5.measure(study)
off = tables["rescaled"]["off C = ||X||"].max()
print("rescaled it is that of C = ||X||, in the figure:", bool(off < 1e-9))
display(fig5.draw(tables))
study.judge(fig5, tables)

# %% [markdown]
# ### Figure 6: only the lowest resolution is not clipped
#
# The norm grows like the side of the picture, so the same $C$ leaves the smallest picture alone and
# clips the others: the second and third row lose brightness.

# %%
import numpy as np

# the norm of a picture grows like its side
norms = {side: np.linalg.norm(np.full((side, side, 3), 0.5)) for side in (32, 1024)}
clipping = 2.6 * norms[32]
print(f"clipping factor at 1024 pixels, by hand: {min(1.0, clipping / norms[1024]):.2f}")

# %% tags=["exhibit:ziller2024/fig6"]
from companion.papers.ziller2024 import fig6

tables = fig6.measure(study)
beta = tables["grid"].groupby("size")["beta"].first()
print(f"clipping factor at 1024 pixels, in the figure: {beta[1024]:.2f}")
display(fig6.draw(tables))
study.judge(fig6, tables)

# %% [markdown]
# ### Figure 7: only the highest resolution is clipped
#
# The paper sees more noise in the first row than in the second. Per pixel the two carry the same
# noise, $C\sigma$; shown at one size, the larger picture averages it away.

# %%
import numpy as np

rng = np.random.default_rng(1)
small, large = rng.standard_normal((32, 32, 3)), rng.standard_normal((224, 224, 3))
averaged = large.reshape(32, 7, 32, 7, 3).mean(axis=(1, 3))
print(
    f"noise at 32 over that at 224 pixels, seen at one size, by hand: {small.std() / averaged.std():.0f}"
)

# %% tags=["exhibit:ziller2024/fig7"]
from companion.papers.ziller2024 import fig7

tables = fig7.measure(study)
seen = tables["grid"].groupby("size")["noise seen"].mean()
print(
    f"noise at 32 over that at 224 pixels, seen at one size, in the figure: {seen[32] / seen[224]:.0f}"
)
display(fig7.draw(tables))
study.judge(fig7, tables)

# %% [markdown]
# ### Figure 8: a very large clipping norm
#
# Now nothing is clipped and the noise $C\sigma$ is the same at every resolution. Shown at one size,
# the small picture is noisy even at the smallest $\sigma$, and the large one averages the noise
# away.

# %%
import torch

from reconrisk import DPSGD
from reconrisk.attacks import observe, unscaled

picture = torch.rand(1, 3072, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
run = DPSGD(1e-5, max_grad_norm=320 * float(picture.norm()))  # far above the norm: not clipped
noise = unscaled(observe(picture, run, torch.Generator().manual_seed(2))) - picture
print(
    f"noise per value over C at sigma = 1e-5, by hand: {float(noise.std()) / run.max_grad_norm:.0e}"
)

# %% tags=["exhibit:ziller2024/fig8"]
from companion.papers.ziller2024 import fig8

tables = fig8.measure(study)
lowest = tables["grid"].query("size == 32 and sigma == 1e-5").iloc[0]
print(f"noise per value over C at sigma = 1e-5, in the figure: {lowest['noise'] / lowest['C']:.0e}")
display(fig8.draw(tables))
study.judge(fig8, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** At $\sigma=0.005$ the bound {eq}`eq-ziller2024-8` on the NCC of a clipped picture of 224 pixels a side is about one half. Average the
# released photograph over blocks of 7 by 7 pixels. What is the NCC with the picture at 32 pixels?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from reconrisk import datasets

photograph = datasets.pictures(224, 1)[0]
noise = np.random.default_rng(1).standard_normal(photograph.shape)
copy = photograph + 0.005 * np.linalg.norm(photograph) * noise


def blocks(pixels):
    """Average over blocks of 7 by 7 pixels."""
    return pixels.reshape(32, 7, 32, 7, 3).mean(axis=(1, 3)).ravel()


whole = metrics.ncc(photograph.ravel(), copy.ravel())
small = metrics.ncc(blocks(photograph), blocks(copy))
print(
    f"NCC at 224 pixels {whole:.1f}, at 32 pixels {small:.1f}: the same release, looked at from afar"
)

# %% [markdown]
# **Change.** Clip every *value* at $c$ instead of the whole gradient's norm, with $c$ such that the norm is one twentieth of the
# photograph's. What can be read without noise?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from scipy.optimize import brentq

size = np.linalg.norm(photograph)
level = brentq(lambda c: np.linalg.norm(np.minimum(photograph, c)) - size / 20, 0, 1)
by_value, by_norm = np.minimum(photograph, level), photograph / 20
for name, clipped in (("by value", by_value), ("by norm", by_norm)):
    print(
        f"clipped {name}: NCC {metrics.ncc(photograph.ravel(), clipped.ravel()):.1f} without noise"
    )
print("the norm's clipping loses one number, the values' nearly all of the picture")

# %% [markdown]
# **Refute.** *A higher resolution protects a picture, because the bound {eq}`eq-ziller2024-8` falls with $N$.*

# %% [markdown]
# ```{dropdown} Solution
# Enlarge a picture $x$ by repeating every pixel in blocks of $k$ by $k$: $X$, of norm $\lVert X\rVert=k\lVert x\rVert$. Let both be clipped, and
# divided by their known factors. The copy of $X$ has noise of standard deviation $\sigma k\lVert x\rVert$ in every value. Averages over its
# blocks are $x$ with noise of $\sigma k\lVert x\rVert/k=\sigma\lVert x\rVert$: exactly the law of the copy of the small picture, although the
# bound on the NCC of the large one has $k^2N$ in the place of $N$. The larger picture shows what the small one shows, and perhaps more.
# ```
