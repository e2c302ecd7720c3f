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
# # Which reading makes Table II?
#
# At the end of this page you know which of the settings that Biswas et al. do not state change the
# reconstructions of Table II, in which direction, and what none of them explains.
#
# In the recorded run of {ref}`Table II <exhibit-biswas2024-table2>` the errors under von Mises-Fisher noise
# and under clipping alone are nearly as printed. The errors *without* defence lie a third above print, and
# those under Gaussian noise above print as well. Noise cannot explain the undefended errors. Three other things are
# not stated: where the search starts, the network's first weights, and the units of the pixels. Changed one
# at a time, in {ref}`the attack at work <exhibit-biswas2024-alg_iga>`, none of them explains the gap. Here
# they are changed together.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (MNIST and FashionMNIST in the paper profile)
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
# ## First without noise, then with it
#
# A reading must do two things at once: lower the undefended error by a quarter, and leave the error under
# clipping where it is. First candidates of one constant lower both: records of one label then stay equal for
# ever, and an average picture is nearer than a sharp wrong one. Smaller first weights move them
# the right way, too little. But look at the right panel: under Gaussian noise the same
# weights leave *more* error, so that the printed rows would need even less noise than with Glorot's. What
# mends one half of the table spoils the other.
#
# A quick run searches for 500 iterations, on digits alone, and a longer search ends somewhat higher. That
# the undefended error agrees with print to two per cent here is therefore a coincidence.

# %%
import torch

from reconrisk import datasets
from reconrisk.attacks import invert_gradients
from reconrisk.models import SigmoidNetwork
from reconrisk.training import Release, release_gradients

digits = datasets.classified("MNIST-5000")
small = datasets.grey_at(digits, 16, crop=True)
mean, std = float(digits.inputs.mean()), float(digits.inputs.std())
inputs = torch.as_tensor((small.inputs[:128] - mean) / std)
labels = torch.as_tensor(digits.labels[:128])
glorot = SigmoidNetwork((256, 50, 15, 10)).initialise(torch.Generator().manual_seed(0), glorot=True)
options = {"iterations": 150, "total_variation": 0.0025, "shape": (16, 16)}
options["box"] = (-mean / std, (1 - mean) / std)  # black and white
errors = {}
for scale in (0.5, 1.0):
    draw = {"generator": torch.Generator().manual_seed(0)}
    weights = {name: scale * w for name, w in glorot.items()}
    seen = release_gradients(weights, inputs, labels, [Release("none")], **draw)
    network = {name: w[None] for name, w in weights.items()}
    found = invert_gradients(network, seen, labels[None], **draw, **options).inputs[0]
    errors[scale] = float((found - inputs).square().mean())
print(f"by hand: half of the weights, less undefended error: {errors[0.5] < errors[1.0]}")

# %% tags=["exhibit:beyond/joint_readings"]
from companion.papers.beyond import joint_readings

tables = joint_readings.measure(study)
undefended = joint_readings.fits(tables["errors"])["undefended"].xs("normal")
print(f"in the figure: {undefended[0.5].item() < undefended[1.0].item()}")
display(joint_readings.draw(tables))
study.judge(joint_readings, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** PyTorch draws the weights of a linear layer uniformly within $1/\sqrt{n}$ for $n$ inputs, Glorot's rule
# within $\sqrt{6/(n+m)}$ for $m$ outputs. What is the ratio in the three layers?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
layers = [(256, 50), (50, 15), (15, 10)]
print(", ".join(f"{n**-0.5 / (6 / (n + m)) ** 0.5:.2f}" for n, m in layers))

# %% [markdown]
# **Change.** Let the search above start from grey, 0.5 everywhere, for 50 iterations. Do the pictures of one
# label differ?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
grey = torch.full_like(inputs, (0.5 - mean) / std)[None]
start = options | {"iterations": 50, "start": grey}
found = invert_gradients(network, seen, labels[None], **draw, **start).inputs[0]
alike = torch.stack([found[labels == k].std(dim=0).mean() for k in labels.unique()])
print(f"{len(labels)} records, {len(labels.unique())} labels")
print(f"pictures of one label differ: {bool(alike.max() > 0.05 * found.std(dim=0).mean())}")

# %% [markdown]
# **Prove.** Why do pictures of one label stay equal, whatever gradient was released?

# %% [markdown]
# ```{dropdown} Solution
# The candidates' averaged gradient is a sum over the records of a function of picture and label, and the total
# variation is the same sum for every picture. Exchanging two records of one label leaves the loss as it is. At
# candidates at which these two are equal the exchange changes nothing, so the derivatives in both are equal, too. Adam
# and the projection treat every pixel by its own derivatives alone: by induction the two stay equal.
# ```
