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
# # Assess your Opacus run
#
# At the end of this page you can turn the settings of an Opacus run into a report on what each kind
# of attacker could achieve, and read that report.
#
# We train a network with [Opacus](https://opacus.ai), as you would train yours; then the library bounds what each
# kind of attacker could achieve. The report needs the settings of the run, which Opacus has recorded, and some facts
# about the records. It uses neither the network nor the data. The training here takes a few seconds.
#
# The command `reconrisk risk` does the same: {doc}`../../book/api/cli`.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (paper profile)

# %% [markdown]
# ## Train
#
# Nothing here is specific to this library. The accounting assumes Poisson sampling of batches, which is the default
# of Opacus.

# %%
import warnings

import torch
from opacus import PrivacyEngine

from reconrisk import datasets

digits = datasets.classified("digits", split="train")
records = torch.utils.data.TensorDataset(
    torch.as_tensor(digits.inputs, dtype=torch.float32), torch.as_tensor(digits.labels)
)
torch.manual_seed(seed)
network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ELU(), torch.nn.Linear(32, 10))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Opacus warns that its noise is not from a secure generator
    engine = PrivacyEngine()
    network, optimiser, loader = engine.make_private(
        module=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=2.0),
        data_loader=torch.utils.data.DataLoader(records, batch_size=150),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    for _ in range(8):
        for inputs, labels in loader:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(inputs), labels).backward()
            optimiser.step()

test = datasets.classified("digits", split="test")
with torch.no_grad():
    guessed = network(torch.as_tensor(test.inputs, dtype=torch.float32)).argmax(dim=1).numpy()
print("learnt something:", (guessed == test.labels).mean() > 0.7)

# %% [markdown]
# ## Get the settings of the run
#
# {func}`reconrisk.risk.from_opacus` takes the engine, its accountant or a stored history. Opacus computes the sampling
# rate and the divisor of a step's sum from the number of records, so that the weights show that number, whatever the
# noise. The report therefore takes it as public, and compares the run with one where the record's gradient is zero
# (`adjacency`), not with one that has a record less.

# %%
from reconrisk import risk

weights = sum(parameter.numel() for parameter in network.parameters())
run = risk.from_opacus(engine, max_grad_norm=1.0, parameters=weights, delta=1e-5)
print(f"sigma = {run.noise_multiplier:g}, q = {run.sampling_rate:g}, T = {run.steps}")
print("adjacency:", run.adjacency)

# %% [markdown]
# ## Assess it
#
# The error that a linear layer in front leaves depends on three facts about the records: the number of values, their
# range, and the smallest norm, because the noise in a reconstruction is proportional to the norm. A sample of the
# data gives all three. What other networks can leave at best is in the entries *every network*.

# %%
record = risk.record(sample=digits.inputs, data_range=1.0, picture=True)
report = risk.assess(run, record, risk.questions(prior_sizes=(2, 10, 1000)))

chosen = (
    "epsilon",
    "membership_advantage",
    "rero[prior_size=2]",
    "rero[prior_size=10]",
    "rero[prior_size=1000]",
    "mse",
    "psnr",
    "ncc",
)
for key in chosen:
    entry = report[key]
    print(f"{entry.title:<45} {entry.value:8.3g}  {entry.unit}, {risk.DIRECTIONS[entry.direction]}")

# %% [markdown]
# In plain words, with the numbers in sentences: `report` on a line of its own shows them, with the warnings and tables.
# Here are the questions and verdicts alone; {doc}`../../book/api/risk` has the rules behind them.

# %%
for judgement in report.judgements:
    print(judgement.question, judgement.verdict)

# %% [markdown]
# Every entry also has its assumptions, the place of its proof, and what is known about its tightness.

# %%
entry = report["rero[prior_size=10]"]
print(entry.question)
print(*entry.assumptions, sep="\n")
print(entry.source.paper, entry.source.place, entry.source.function)

# %% [markdown]
# ## Interpret it
#
# - *Success with ten candidates* answers people who ask whether their record could be recognised: it bounds every
#   attack on every network, and guessing succeeds in one of ten cases.
# - *MSE, PSNR, NCC* are for a server that may change the network and knows nothing about the records. Compare the MSE
#   with that of a guess:

# %%
from reconrisk.attacks import mean_record_mse

pixels = digits.inputs.astype(float)
print("row mean worse than the mean picture:", report["mse"].value > mean_record_mse(pixels))
print(f"mean picture: {mean_record_mse(pixels):.3f}, row mean: {report['mse'].value:.3f}")

# %% [markdown]
# The accountant inside Opacus is looser than the certified one; both hold.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    theirs = engine.get_epsilon(1e-5)
print(f"Opacus: epsilon <= {theirs:.2f}; certified: epsilon <= {report['epsilon'].value:.2f}")

# %% [markdown]
# ## Try it
#
# **Compute.** How long must the list of candidates be before no attacker can name the record in more than a tenth of all cases?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
import numpy as np

from reconrisk import DPSGD, bounds

settings = DPSGD(run.noise_multiplier, sampling_rate=run.sampling_rate, steps=run.steps)
sizes = np.arange(10, 1001)
upper = bounds.rero_curve(settings, 1 / sizes)[1]
enough = np.argmax(upper <= 0.1)
print(f"{sizes[enough]} candidates; guessing alone needs ten")
print(f"the attacker is {upper[enough] * sizes[enough]:.0f} times as good as guessing there")

# %% [markdown]
# **Change.** Train with a clipping norm of 0.1 instead of 1, and the same noise multiplier. Which entries of the report change?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
import dataclasses

smaller = risk.assess(dataclasses.replace(run, max_grad_norm=0.1), record, report.questions)
changed = [
    old.title
    for old, new in zip(report.entries, smaller.entries, strict=True)
    if (old.lower, old.upper) != (new.lower, new.upper)
]
print("entries that change:", changed or "none")
print("the noise shrinks with the clipping norm, so what an attacker can see of it stays the same")

# %% [markdown]
# **Prove.** If every example's gradient is longer than both $C$ and $C'$, training with clipping norm $C$ and learning rate $\lambda$ gives the same weights as
# training with $C'$ and $\lambda C/C'$.

# %% [markdown]
# ```{dropdown} Solution
# A step with norm $C$ and noise multiplier $\sigma$ moves the weights by $-\lambda$ times $\sum_i C\,g_i/\lVert g_i\rVert+C\sigma\xi$, which is
# $C$ times something that does not contain $C$. With $C'$ and $\lambda C/C'$ the movement is the same for the same batch and the same $\xi$. The
# weights therefore agree after every step, and so do the next gradients. (Dividing by the batch size changes nothing.) Where a gradient is shorter than
# $C$ the argument fails: it is not scaled up, and the larger norm adds more noise to it.
# ```
