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
# # One run, five answers
#
# A small network is trained on handwritten digits by DP-SGD with Poisson sampling. How safe are the
# records? Five papers answer, each for an attacker of its own. Here all of them look at the same run:
# one model, one data set, one noise multiplier; every bound is computed for it and every attack is
# carried out on models that were trained for it. The quick profile trains on the small digits that come
# with scikit-learn, the paper profile on MNIST.
#
# What is asked of such a run by whom, and where to look:
#
# | If the attacker … | look at | with |
# | --- | --- | --- |
# | knows all but *whether* a record took part | membership: the rows below that say so | {func}`~reconrisk.privacy.epsilon`, {func}`~reconrisk.privacy.delta` |
# | knows all but *which of n candidates* took part | reconstruction robustness, {prf:ref}`paper C <prf-hayes2023-cor4>` | {func}`~reconrisk.bounds.rero`; at best {func}`~reconrisk.bounds.bayes_success_subsampled` |
# | knows the records' distribution | the same, with the prior success of a ball | {func}`~reconrisk.bounds.prior_success_ball_any_centre` |
# | runs the server and may change the first layer, knows nothing of the records | the prior-free laws, papers {prf:ref}`A <prf-mean_to_extreme-prop1>` and {prf:ref}`B <prf-ziller2024-prop1>` | {func}`~reconrisk.bounds.mse_tail_sampled`, {func}`~reconrisk.bounds.expected_mse_sampled` |
# | runs the server and leaves the network alone | Cramér-Rao for the unbiased, {prf:ref}`paper E <prf-liu2024-thm3_1>`; nothing certified for the others but reconstruction robustness | {func}`~reconrisk.attacks.linearised_variance`, {func}`~reconrisk.bounds.cramer_rao_error` |
# | has any prior and wants any gain | Bayes' capacity, {prf:ref}`paper D <prf-biswas2024-thm5>` | {func}`~reconrisk.bounds.bayes_capacity_gaussian` |
# | sees a direction, turned at random | the laws for von Mises-Fisher noise, {prf:ref}`paper D <prf-biswas2024-def4>` | {func}`~reconrisk.privacy.vmf_epsilon`, {func}`~reconrisk.bounds.rero_vmf` |
# | sees updates without noise | no bound holds but the rank of the Jacobian: {prf:ref}`hidden, or gone <prf-beyond-hidden>` | {func}`~reconrisk.training.update_jacobian` |

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
# ## What the run looks like
#
# The table has a row for each question; the attackers know more at the top than at the bottom. *Bound* is
# what is proven, *measured* what an attack reached, with the sign that the bound demands. Three things to
# see. The certified success with ten candidates is near what the attack reaches, and between the two lies
# what the best attack on orthogonal gradients reaches ({prf:ref}`the theorem <prf-beyond-subsampled>`):
# this bound is a forecast. Bounds that give no credit for sampling, or hold for every prior and gain at once, say nothing of this run.
# And whoever has no prior gets pictures that are worse than the mean picture, with the server's own
# layer as well as through the honest network.
#
# The second verdict holds {func}`reconrisk.risk.assess`, the report that any run can have, to the values computed here.

# %%
from reconrisk import DPSGD, bounds, privacy

sigma = privacy.noise_for_epsilon(8.0, 1e-5, sampling_rate=0.1, steps=100)
run = DPSGD(sigma, sampling_rate=0.1, steps=100)
certified = bounds.rero(run, prior_success=1 / 10)
print(f"by hand, success with 10 candidates is at most {certified.upper:.4f}")

# %% tags=["exhibit:beyond/one_run"]
from companion.papers.beyond import one_run

tables = one_run.measure(study)
answer = tables["rows"].set_index("question").loc["success with 10 candidates"]
print(f"in the table, success with 10 candidates is at most {answer['bound']:.4f}")
display(one_run.draw(tables))
tables.show()
study.judge(one_run, tables)

# %% [markdown]
# ## What an epsilon means
#
# The same sampling rate and number of steps, with the noise of other epsilons. Columns with candidates are
# certified for every attack; errors are those of the shrunken row mean and of the row mean, for an attacker
# who is told the steps and knows no more. The mean picture needs no gradient at all: where its error is
# below, nothing has been reconstructed.

# %%
from reconrisk import DPSGD, privacy

sigma = privacy.noise_for_epsilon(8.0, 1e-5, sampling_rate=0.1, steps=100)
run = DPSGD(sigma, sampling_rate=0.1, steps=100)
# the advantage of the best membership test is delta at epsilon = 0
advantage = privacy.delta(run, 0.0).upper
print(f"by hand, at epsilon = 8: membership advantage {advantage:.4f}")

# %% tags=["exhibit:beyond/epsilon_means"]
from companion.papers.beyond import epsilon_means

tables = epsilon_means.measure(study)
at_eight = tables["values"].set_index("epsilon").loc[8.0]
print(f"in the table, at epsilon = 8: membership advantage {at_eight['membership advantage']:.4f}")
tables.show()
study.judge(epsilon_means, tables)

# %% [markdown]
# ## Which run is safer?
#
# Up to here one number of the run was turned, its noise, and then every notion agrees with every other on the order. With
# the sampling rate and the number of steps free they do not ({prf:ref}`three groups <prf-beyond-groups>`). The certified
# success and epsilon look at the trade-off curve of the run, to which sampling contributes what the attacker does not know;
# a prior-free attacker who is told the steps sees all of them, and ten thousand steps at a rate of one in a
# hundred leave a hundred copies of the record to average.

# %%
from reconrisk import privacy

# two runs of epsilon = 4: which one leaves a prior-free attacker more, the record's signal qT/sigma^2?
for q, steps in ((1.0, 1), (0.01, 10_000)):
    sigma = privacy.noise_for_epsilon(4.0, 1e-5, sampling_rate=q, steps=steps)
    print(f"by hand: q = {q:g}, T = {steps:,}: {max(1, q * steps) / sigma**2:.4f}")

# %% tags=["exhibit:beyond/orderings"]
from companion.papers.beyond import orderings

tables = orderings.measure(study)
runs = tables["runs"].query("abs(epsilon - 4) < 1e-3").set_index("T")
for q, steps in ((1.0, 1), (0.01, 10_000)):
    print(f"in the figure: q = {q:g}, T = {steps:,}: {runs.loc[steps, 'prior-free']:.4f}")
display(orderings.draw(tables))
study.judge(orderings, tables)

# %% [markdown]
# Orders within one mechanism only, that is. Two mechanisms can be put in either order by the choice of
# what is held equal: {ref}`Notions <exhibit-beyond-vmf_notions>` for batches, {ref}`Matched noise
# <exhibit-beyond-matched_vmf>` for a single vector.
#
# (which-bound)=
# ## Which bound, when
#
# 1. **Is there noise in what leaves the client?**
#    - *No.* No notion of this page is finite. Ask what was removed, not what was hidden: {prf:ref}`the rank of the Jacobian
#      <prf-beyond-hidden>` decides, and {ref}`Strongest attack <exhibit-beyond-strongest_attack>` shows how.
#    - *Yes, Gaussian on clipped gradients, or a turned direction.* Go on.
# 2. **Could the attacker have a list, or a distribution, in which the record is?**
#    - *A list of n:* reconstruction robustness with $\kappa=1/n$, certified: {func}`reconrisk.bounds.rero`. Uneven
#      probabilities: the largest of them.
#    - *Pictures to compare with:* the same with the prior success of a ball; choose the radius first, it is the
#      definition of harm.
#    - *Unknown, or you cannot say:* two candidates, $\kappa=\frac12$: no list is shorter. Membership asks for even less, and
#      $\varepsilon$ is for it.
# 3. **Can the attacker only look, with no idea of what records are like?** Then say what the server may do.
#    - *It may change the network:* prior-free tails, {func}`reconrisk.bounds.mse_tail_sampled`, and for the best use of the same
#      observation {func}`reconrisk.bounds.mse_tail_sphere`. Exact, for that attack.
#    - *It may not:* Cramér-Rao. It binds unbiased attackers; above a pixel's range it is no statement on anybody.
# 4. **Do you compare two mechanisms, not two settings of one?** Hold equal what you must provide (accuracy, or the mean cosine of the
#    released gradient), then compare what you fear. Equal $\varepsilon$ or equal capacity decides the answer in advance.
# 5. **Is the prior astronomically small,** below about $e^{-p/2}$ for $p$ released values? Only then does capacity say more
#    than reconstruction robustness ({prf:ref}`the crossing <prf-beyond-capacity_and_rero>`).
# 6. **Is the bound on the mean squared error of unbiased attacks enough?** It is right, and it is smaller than the error of the attack on pictures by the
#    number of pixels ({prf:ref}`the proof <prf-beyond-unbiased_bound>`); use the exact laws.
