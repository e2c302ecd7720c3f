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
# # A stronger attack
#
# Liu et al. measure defences of two-layer networks by the tensor attack ({prf:ref}`Theorem 3.1
# <prf-liu2024-thm3_1>`) and by a lower bound that falls with the noise
# ({prf:ref}`Theorem 3.2 <prf-liu2024-thm3_2>`), and conclude that both match
# and that pruning, for which no upper bound is known, is the better defence
# ({doc}`01_upper_bounds`, {doc}`02_lower_bounds`). The attack uses two moments of a gradient that has
# one entry for each neuron. This page uses the entries: first the low Hermite orders, which are all noise
# in the moments, are removed ({func}`reconrisk.attacks.tensor_attack`), then records and residuals are
# fitted to every released entry by least squares ({func}`reconrisk.attacks.refine_records`). What any
# unbiased attack must leave is computed exactly, from the derivatives of what is released
# ({func}`reconrisk.bounds.cramer_rao_error`). The argument is on
# {doc}`the companion's page </book/papers/beyond>`.

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
# ## Every defence, attacked to the end
#
# Without noise there is nothing between the attacker and the records but equations, many more of
# them than unknowns. Clipping takes one away, the gradient's length. Dropout and pruning leave fewer,
# and say which. Local steps make them longer. Least squares solve what is left, where the published
# attack fails under the same defence; secure aggregation is a larger batch. Masks that dropout draws for
# every record on its own look like noise to both attacks; they are not, since an entry can only
# be one of a few sums, and they come back with the records
# ({func}`reconrisk.attacks.refine_with_masks`).
#
# Where least squares fail, two reasons are told apart. Under heavy pruning they sometimes start too far
# off, and more random starts or more neurons help. Or the information is gone: of records with the
# same label, what heavy pruning keeps is where all of them are in the activation's straight half, and
# only their sum is seen there. The exact bound is infinite then. Its loosening to a trace, which the
# paper uses, does not notice.

# %% tags=["exhibit:beyond/two_layer_refinement", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/two_layer_refinement"))

# %% [markdown]
# ## What is between the printed bounds
#
# {prf:ref}`Proposition 3.4 <prf-liu2024-prop3_4>` and its like compare an attack's error with a
# bound that is loosened twice, to a trace and to an order. Cut into factors the gap reads otherwise: a
# little is the bound's own slack, which grows with the batch because a trace cannot see
# that records can be taken for each other; most is the attack's. As the noise goes to zero the lower
# bound does, too, and is attained, while the upper bound stays where it is: they do not match, and the
# dotted lines, the printed orders, part for noise below the batch size.
#
# For the defences this means: dropout and pruning raise the exact bound by about the same factor at
# the same share, until pruning begins to remove information. That a pruned gradient defeats the tensor
# attack says something about the tensor attack.

# %% tags=["exhibit:beyond/two_layer_floor", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/two_layer_floor"))

# %% [markdown]
# ## The batch size
#
# The upper bound of {ref}`Table 1 <exhibit-liu2024-table1>` is linear in $B$, the lower bound has no $B$.
# Both are off: the errors grow with $B$, by a power between the two. What the order leaves out
# matters more. The full statement ({prf:ref}`Theorem B.6 <prf-liu2024-thmB6>`) has a factor
# $1/\pi_{\min}^2$, the smallest singular value of the batch, which is near one for random records and
# small for pictures, all of which are alike; that square, too, is more than what is measured.

# %% tags=["exhibit:beyond/two_layer_batch", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/two_layer_batch"))

# %% [markdown]
# ## Clipping with noise
#
# Under DP-SGD the bounds have $\max(1,\|G\|/C)\sqrt{d/m}$, which looks as if width helped the
# attacker. It does not: $\|G\|$ itself grows as $\sqrt m$, and the two cancel. A wider network gives
# more equations, each under more noise. What still falls with the width is the part of the tensor attack's
# error that no noise explains.

# %% tags=["exhibit:beyond/two_layer_clip_noise", "hide-input"] mystnb={"code_prompt_show": "The call"}
figures.show(session.run("beyond/two_layer_clip_noise"))
