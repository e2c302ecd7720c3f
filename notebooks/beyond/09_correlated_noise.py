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
# # Noise that cancels
#
# DP-SGD with sampling needs batches that nobody can predict. DP-FTRL does without: it correlates the noises of the steps, so that much of them
# cancels in the model, and no order of the data needs to be secret. Which of the two tells more about a record? At the end of this page you can
# answer it at equal accuracy, for an attacker who knows the order and for one who does not.
#
# The theory is on the page {doc}`../../book/papers/beyond_runs`: {prf:ref}`without sampling <prf-beyond-correlated>`, a whole run with correlated
# noise is one Gaussian release.

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
# ## Equal accuracy, different risk
#
# Plain gradient descent adds up its gradients, so the noise in the *prefix sums* is what the model suffers from. We fix that noise, over the clipping
# norm, and ask each mechanism for the success of the best attacker with ten candidates:
#
# - **independent** noise, as DP-SGD adds it;
# - a binary **tree**, whose nodes are released {cite:p}`kairouz2021practical`;
# - the **square root** of the matrix of prefix sums {cite:p}`fichtenberger2023constant`;
# - its first diagonals, the **banded square root** {cite:p}`kalinin2024banded`, which can be combined with sampling {cite:p}`choquette2023amplified`.
#
# One epoch: a record takes part in one of the steps. Where batches are drawn in secret, it does so once on average. By hand, the square root at a noise
# of 3 in the sums:

# %%
import numpy as np

from reconrisk import bounds
from reconrisk.privacy import MatrixMechanism, square_root_encoder

encoder = square_root_encoder(128)
unit = MatrixMechanism(encoder, noise_multiplier=1.0)
in_sums = np.sqrt(np.mean(unit.prefix_errors() ** 2))
run = MatrixMechanism(encoder, noise_multiplier=3.0 / in_sums)
one_release = run.gaussian()
print(f"by hand: a record moves the release by {run.sensitivity:.3f} clipping norms; one Gaussian")
print(
    f"release with sigma = {one_release.noise_multiplier:.3f}: {bounds.rero(one_release, 0.1).upper:.4f}"
)

# %% tags=["exhibit:beyond/correlated_noise"]
from companion.papers.beyond import correlated_noise

tables = correlated_noise.measure(study)
rows = tables["success"].query("mechanism == 'square root' and error == 3")
print(f"in the table: {rows['success'].iloc[0]:.4f}")
tables.show()
display(correlated_noise.draw(tables))
study.judge(correlated_noise, tables)

# %% [markdown]
# ## What it says
#
# **Without secrets, correlated noise wins.** At equal accuracy the attacker who knows the order names far fewer records under the tree or the square root
# than under independent noise.
#
# **Secret sampling is worth more where there is much noise, less where there is little.** With accurate sums, an attacker of a sampled run sees
# well enough whether the record was there; then the correlation protects better. The banded square root has some of both.
#
# **Read the whole release.** Later steps carry noise that also went into the step of the record. Who looks at that step alone misses it, and an
# audit that does so reports a risk that is too small.
#
# **What is assumed.** Success with sampling is the bound of DP-SGD or, for bands, of the theorem by which they are amplified: certified, and for
# bands attained on some data. Learning with momentum or decay weighs the steps otherwise than prefix sums do.

# %% [markdown]
# ## Try it
#
# **Compute.** A run of 1,000 steps releases a tree. Which noise leaves an attacker with ten candidates one success in four?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
from reconrisk import privacy
from reconrisk.privacy import tree_encoder

needed = privacy.noise_for_success(0.25, 0.1, sampling_rate=1.0, steps=1)
depth = MatrixMechanism(tree_encoder(1000), 1.0).sensitivity
print(
    f"sigma = {needed:.3f} for one release, times the root of {depth**2:.0f} levels: {needed * depth:.2f}"
)

# %% [markdown]
# **Change.** Let every record take part four times, once in each of four epochs of 32 steps, in the run by
# hand. Does the run tell more or less, if the noise in the sums stays?

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Solution"}
again = MatrixMechanism(encoder, run.noise_multiplier, period=32)
for name, mechanism in (("once", run), ("four times", again)):
    found = bounds.rero(mechanism.gaussian(), 0.1).upper
    print(
        f"{name}: the release moves by {mechanism.sensitivity:.2f}, one of ten is named {found:.3f}"
    )
print("it tells more: four columns that overlap add up to more than twice the length of one")

# %% [markdown]
# **Prove.** Under the square root of the prefix sums, an attacker who reads the first published step alone errs by $\lVert c_1\rVert^2$ times the error of
# one who uses the whole release.

# %% [markdown]
# ```{dropdown} Solution
# The published steps are $C^{-1}(CG+Z)=G+C^{-1}Z$. $C$ is lower triangular with ones on the diagonal, and so is its inverse: the first step has the noise $z_1$,
# of variance $\sigma^2$ by coordinate. In the whole release the record of the first step stands as $c_1g^\top$ in independent noise. The unbiased
# linear estimate with the least variance is $c_1^\top(CG+Z)/\lVert c_1\rVert^2$, with variance $\sigma^2/\lVert c_1\rVert^2$.
# ```
