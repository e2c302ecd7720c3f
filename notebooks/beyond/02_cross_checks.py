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
# # The papers against each other
#
# Where two papers speak of the same attacker one can be held against the other. Five such checks, each with
# its proof on the page {doc}`../../book/papers/beyond`.

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
# ## Worst cases: B against C
#
# Paper B prints a worst-case success, paper C bounds every attack, and a membership test has a power. With the full batch they are
# one number ({prf:ref}`proof <prf-beyond-worst_case>`). With sub-sampling paper B's stays where it is, and paper C's falls.

# %% tags=["exhibit:beyond/worst_case", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/worst_case"))

# %% [markdown]
# ## Near misses: A against C
#
# The probability that a reconstruction is closer than a threshold: paper A's law of its own attack, ours for every use of the same
# observation, paper C's bound for every network. Each changes from zero to one at a threshold of its own
# ({prf:ref}`theorem <prf-beyond-near_misses>`), and the distance between the last two is the price of letting the network be
# anything.

# %% tags=["exhibit:beyond/near_misses", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/near_misses"))

# %% [markdown]
# ## Capacity and robustness: D against C
#
# Against a uniform prior both bound the gain over a guess ({prf:ref}`proof <prf-beyond-capacity_and_rero>`). Capacity holds for every prior at once, and
# that is what it pays for.

# %% tags=["exhibit:beyond/capacity_and_rero", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/capacity_and_rero"))

# %% [markdown]
# ## Unbiased attacks: C's reference against A
#
# Papers A and C both call the bound of Guo et al. far too low, and leave it there. Where the factor comes from can be said exactly
# ({prf:ref}`proof <prf-beyond-unbiased_bound>`): it is the number of pixels.

# %% tags=["exhibit:beyond/unbiased_bound", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/unbiased_bound"))

# %% [markdown]
# ## Two mechanisms: D against itself
#
# Which concentration is as good as a noise multiplier? Paper D compares at equal epsilon and at equal capacity, and finds opposite
# winners. For one vector the two differ by a factor of two, whatever the dimension ({prf:ref}`the reason <prf-beyond-matched_vmf>`).

# %% tags=["exhibit:beyond/matched_vmf", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/matched_vmf"))
