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
# # Fifteen minutes: rebuild a digit
#
# At the end of this page you have read a handwritten digit out of a gradient, watched clipping and noise
# spoil the copy, repaired it in two ways, and computed what no attacker can exceed. It takes
# NumPy and twenty lines; every later page is about one of these steps.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with MNIST (paper profile)
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
# ## A digit, and a gradient that holds it
#
# The record is the first nine of MNIST, 784 numbers in [0, 1]. The attacker may change the network:
# it starts with a linear layer $f(x) = Wx$ of 1,000 rows, whose outputs it sums. The derivative of that sum
# with respect to *each* row of $W$ is the record itself.

# %%
import matplotlib.pyplot as plt
import numpy as np

from reconrisk import datasets

images = datasets.classified("MNIST-5000", split="all")
digits = images.inputs.astype(float)
record = digits[9]

# d sum(W x) / dW: the record in every row
gradient = np.tile(record, (1000, 1))
print("its rows are the record:", np.array_equal(gradient[123], record))

# %% [markdown]
# ## What differentially private training releases
#
# DP-SGD does not release this gradient. It scales it down until its length is at most $C$ (here 1), and adds Gaussian
# noise of standard deviation $\sigma C$ to every entry: $\sigma$ is the **noise multiplier**. The
# attacker sees the sum, and knows $\sigma$, $C$ and, in paper A, by what factor the gradient was scaled.

# %%
sigma, rng = 0.05, np.random.default_rng(1)
factor = 1 / np.linalg.norm(gradient)  # clipping to C = 1
released = factor * gradient + sigma * rng.normal(size=gradient.shape)

one_row = released[0] / factor
print(f"error of one row:    {np.mean((one_row - record) ** 2):8.3f}")

# %% [markdown]
# One row is hopeless: the noise drowns the picture. But there are a thousand
# rows with the same record and independent noise. **Average them.** Paper A (*From Mean to Extreme*, the first of
# the five papers of this book) calls the result optimal; its error is
# $\sigma^2\lVert x\rVert^2$, however large $C$ is.

# %%
copy = released.mean(axis=0) / factor
print(f"error of the average: {np.mean((copy - record) ** 2):7.3f}")
print(f"sigma^2 ||x||^2:      {sigma**2 * record @ record:7.3f}")

# %% [markdown]
# ## Two better copies
#
# The noise grows with the record's length, so the copy itself tells how noisy it is.
# **Shrinking** the average by the fixed factor $1/(1+N\sigma^2)$ multiplies the error at *every* record by that factor
# ({prf:ref}`the proof <prf-beyond-shrinkage>`).
#
# The second attacker has seen digits before, other ones, and knows their mean and covariance. Along each
# principal direction it keeps what is more likely digit than noise: a **Wiener filter**.

# %% mystnb={"image": {"alt": "Six small pictures: a digit nine; one row of the update, black and white noise; the average of the rows, the nine under noise; the same shrunken, faint; filtered, the nine almost clean; the mean of the others, a blur."}}
shrunken = copy / (1 + record.size * sigma**2)

others = digits[10:]  # none of them the record
mean, covariance = others.mean(axis=0), np.cov(others.T)
noise = sigma**2 * np.mean(np.sum(others**2, axis=1))
filtered = mean + covariance @ np.linalg.solve(covariance + noise * np.eye(784), copy - mean)

pictures = {"record": record, "one row": one_row, "average": copy, "shrunken": shrunken}
pictures |= {"filtered": filtered, "mean of the others": mean}
figure, axes = plt.subplots(1, 6, figsize=(8.4, 1.9), layout="constrained")
for axis, (name, values) in zip(axes, pictures.items(), strict=True):
    axis.imshow(values.reshape(28, 28), cmap="gray", vmin=0, vmax=1)
    axis.set_title(f"{name}\nMSE {np.mean((values - record) ** 2):.3f}", fontsize=8.5)
    axis.axis("off")
plt.show()

# %% [markdown]
# At this noise the "optimal" copy is *farther* from the record than the mean of all other digits, and
# an attacker who knows only the factor and mean and covariance of others has the digit. Whether training is safe depends on what the
# attacker knows.
#
# ## What nobody can exceed
#
# How often could *any* attacker who sees the release alone pick the right record from a list of 5,000? Paper C bounds that
# by one hypothesis test. The library certifies the number from both sides.

# %%
from reconrisk import DPSGD, bounds

for multiplier in (0.05, 0.2, 0.5, 1.0):
    enclosure = bounds.rero(DPSGD(multiplier, max_grad_norm=1.0), prior_success=1 / 5000)
    print(f"sigma = {multiplier:<4g}  named at most {enclosure.upper:.4f} of the time")

# %% [markdown]
# ## The whole picture
#
# The same for three hundred other digits, at seven noises, with attackers who know less and more. The pictures
# show one of them, a seven. Read each row from left to right: where does it stop being a seven, and what does the
# attacker make up instead?
#
# The list *without* the record does worse than the filter at small noise: it can return only digits it has.
# The dashed line in the last panel is flat: whoever is told the clipping factor knows the record's
# length, and hardly two of these digits are equally long. That attacker need not look at the release.
# DP-SGD does not release the factor, so from the third row on attackers have the release alone, for which paper C's bound holds.

# %% tags=["exhibit:beyond/priors"]
from companion.papers.beyond import priors

tables = priors.measure(study)
display(priors.draw(tables))
study.judge(priors, tables)

# %% [markdown]
# ## Try it
#
# **Compute.** How many rows does the layer need before averaging more of them gains less than one per cent?
# (Until clipping sets in, the average of $M$ rows has the error $\sigma^2C^2/M$. When does it set in with $C = 100$?)

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
norm, clip = np.linalg.norm(record), 100.0
rows = np.arange(1, 1000)
error = sigma**2 * clip**2 / rows / np.minimum(1.0, clip / (np.sqrt(rows) * norm)) ** 2
enough = rows[error < 1.01 * error.min()][0]
print(f"from {enough} rows on, which is (C / ||x||)^2 = {(clip / norm) ** 2:.0f}")

# %% [markdown]
# **Change.** Give the attacker four training steps with the same record. How much smaller is the error of the shrunken copy,
# and of the filtered one?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
steps = [factor * gradient + sigma * rng.normal(size=gradient.shape) for _ in range(4)]
four = np.mean([release.mean(axis=0) / factor for release in steps], axis=0)
by_shrinking = four / (1 + record.size * sigma**2 / 4)
gain = covariance @ np.linalg.inv(covariance + noise / 4 * np.eye(784))
by_filter = mean + gain @ (four - mean)
for name, before, now in (("shrunken", shrunken, by_shrinking), ("filtered", filtered, by_filter)):
    ratio = np.mean((before - record) ** 2) / np.mean((now - record) ** 2)
    print(f"{name}: {ratio:.1f} times smaller")

# %% [markdown]
# **Prove.** Why does shrinking lower the error of *every* record by the same factor, $1/(1+N\sigma^2)$?

# %% [markdown]
# ```{dropdown} Solution
# The copy is $x+\sigma\lVert x\rVert\xi$ with $\xi$ standard normal in $N$ dimensions. Times $a$, its expected squared error is
# $(1-a)^2\lVert x\rVert^2+a^2N\sigma^2\lVert x\rVert^2$: both terms are proportional to $\lVert x\rVert^2$, so the best $a$ is the same
# for all records, $a=1/(1+N\sigma^2)$, and there the error is $\lVert x\rVert^2N\sigma^2/(1+N\sigma^2)$, which is $a$ times
# the copy's $N\sigma^2\lVert x\rVert^2$.
# ```
