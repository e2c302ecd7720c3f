"""Numbers that prose gives are those of the tables it speaks of.

A sentence that quotes a result stands here with the table it quotes: the record where there is
one, else the quick run. When a record is made anew, the test names the sentences to write again.
"""

import itertools
import re

import numpy as np
import pytest

from companion.experiments.client_grid import Grid, network_of
from companion.papers.beyond.mechanism_or_calibration import at_equal_accuracy
from companion.study import Study, registry
from companion.study.records import read_record
from companion.study.tables import exact_table

ROOT = registry.project_root()
ERRATA, DEFENCES = "data/companion/errata.csv", "data/companion/defences.csv"
C = "notebooks/hayes2023/"


def recorded(exhibit, table):
    return exact_table(ROOT / f"data/recorded/{exhibit}/{table}.csv")


def quick(exhibit, table):
    return exact_table(ROOT / f"tests/tables/{exhibit}/{table}.csv")


def two_digits(*values):
    return [f"{float(f'{v:.2g}'):g}" for v in values]


def percent(*values):
    return [f"{100 * v:.0f}" for v in values]


def hundredths(*values):
    return [f"{v:.2f}" for v in values]


# --- paper C -----------------------------------------------------------------------------------


def error_of_the_mean():
    table = quick("hayes2023/prop5", "error-of-the-mean").set_index("n")
    part = table["99.9% below"]
    most = part.index[part < 0.01].max()
    return [f"{most:.0f}", f"{part[2048]:.3f}", f"{table.loc[2048, 'threshold estimated']:.3f}"]


def errors_of_the_mean_defended():
    table = quick("hayes2023/prop5", "error-of-the-mean").set_index("n")
    part = table["99.9% below"]
    return [f"{part[10]:.4f}", f"{part[512]:.4f}"]


def with_and_without_candidates():
    table = recorded("hayes2023/fig8", "success")
    wide = table.pivot(index=["prior size", "epsilon"], columns="attack", values="success")
    ratio = (wide["prior-aware"] / wide["gradient-based"]).groupby("prior size").max()
    assert ratio[8] < 4
    assert np.array_equal(wide["prior-aware"], wide["prior-aware, likelihood"])
    return [{10: "ten"}[round(ratio[128])]]


def names_the_target(run, *scores):
    table = recorded("hayes2023/appG_attack", "scores").set_index(["run", "score"])["success"]
    return percent(*(table[run, score] for score in scores))


def below_the_bound(figure, where):
    table = recorded(f"hayes2023/{figure}", "success").query(f"epsilon == 10 and {where}")
    bound = recorded(f"hayes2023/{figure}", "points").set_index("epsilon")["bound"][10]
    return hundredths(*bound - table.groupby("method")["success"].min()[["shared", "own model"]])


def simulated():
    table = recorded("hayes2023/fig4", "simulated").set_index("epsilon")["top"]
    return [f"{v:.3f}" for v in table[[4, 1]]]


def attacks_and_bound():
    table = recorded("hayes2023/fig4", "trained").query("epsilon == 32").set_index("score")
    values = [table["bound"].iloc[0], *table["success"][["likelihood", "top", "sum"]]]
    return [f"{v:.2f}".lstrip("0") for v in values]


def largest_change_over_q():
    bound = recorded("hayes2023/fig14", "bound")
    ends = bound[bound["q"].isin([bound["q"].min(), bound["q"].max()])]
    change = ends.pivot_table(index=["n", "epsilon"], columns="q", values="gamma to").diff(axis=1)
    most = change.iloc[:, -1].groupby("n").idxmax()
    return [f"{most[n][1]:g}" for n in (2, 10)]


# --- papers A and B ----------------------------------------------------------------------------


def shrinking():
    table = quick("mean_to_extreme/thm1", "ratios")
    table = table[table["reconstruction"] == "shrunken"].set_index("sigma").iloc[:, 1]
    return two_digits(*table[[0.015, 0.06, 0.3]])


def offset_of_one_half():
    table = recorded("mean_to_extreme/cor1", "variants").set_index("network")
    ratio = table.loc["offset 1/2", "MSE over sigma^2 ||X||^2"]
    lower = ratio[ratio < 1]
    return [f"{len(lower)}", f"{len(ratio)}", *hundredths(lower.min(), lower.max())] + [
        f"{ratio.max():.1f}"
    ]


def clipping_the_copy():
    ncc = quick("mean_to_extreme/prop6", "digits")
    before, after = ncc["X_hat"], ncc["clipped to [0, 1]"]
    return [*percent((after > before).mean()), f"{len(ncc)}"] + [
        f"{v.mean():.3f}" for v in (before, after)
    ]


def mean_psnr():
    table = quick("ziller2024/prop2", "psnr").set_index(["norm over C", "N"])["mean"]
    return f"{table[0.5, 1]:.1f}", f"{table[0.5, 10]:.2f}"


def first_row_of_table_1():
    row = quick("ziller2024/table1", "table").iloc[0]
    return [f"{row['success (%)']:.1f}", f"{row['E[NCC] (%)']:.1f}"]


def bound_on_the_sphere():
    unit = quick("mean_to_extreme/lemB1", "record")["value"] ** 2
    return [f"{v:.3f}" for v in 1 - unit / unit.sum()]


def below_the_boxes():
    """How far the worst case lies below the lower quartiles, in the rows of Figure 2."""
    law = quick("mean_to_extreme/fig2", "expected").set_index("sigma")["mse"]
    low = quick("mean_to_extreme/fig2", "samples").groupby(["row", "sigma"])["mse"].quantile(0.25)
    factor = low / (low.index.get_level_values("sigma") ** 2 * (law / law.index**2).mean())
    return [f"{factor.min():.0f}", f"{factor.max():.0f}"]


def matched_without_a_filter():
    matching = quick("beyond/unlabelled_steps", "matching")
    least = matching.groupby("sigma over limit")[["share matched", "share after a filter"]].min()
    assert least.loc[1.0, "share after a filter"] > 0.5 > least.loc[0.7, "share matched"]
    return [f"{least.index[least['share matched'] == 1].max():g}"]


def orders_of_magnitude():
    first = recorded("hayes2023/fig12", "printed-dimensions").query("dimension == 784").iloc[0]
    assert first["rho"] == 0.6
    return [f"{first['log10 prior, exact'] - first['log10 prior, printed']:.0f}"]


def without_subtracting():
    own = recorded("hayes2023/fig10", "success").query("known == 128 and not subtract")
    # "between": outwards
    return hundredths(
        np.floor(100 * own["success"].min()) / 100, np.ceil(100 * own["success"].max()) / 100
    )


def below_the_bound_on_colours():
    bounds, success = (recorded("hayes2023/fig2", name) for name in ("bounds", "success"))
    shared = success.query("method == 'shared' and epsilon == 10")["success"].item()
    return hundredths(bounds.set_index("epsilon").loc[10, "bound"] - shared)


# --- paper D -----------------------------------------------------------------------------------


def cosines_of_gaussian_gradients():
    rows = recorded("biswas2024/fig3", "recognised").query("row.str.contains('Gaussian')")
    return hundredths(rows["cosine"].min(), rows["cosine"].max())


def overestimated_by_the_conversion():
    table = quick("biswas2024/prop4", "conversions")
    return percent(*(table["converted"] / table["exact"] - 1).agg(["min", "max"]))


def end_of_the_attack():
    trace = recorded("biswas2024/alg_iga", "trace")
    whole = trace[(trace["row"] == "no defence") & (trace["batch size"] == 128)]
    return [f"{whole['MSE'].iloc[-1]:.1f}"]


def equal_capacity():
    pairs = recorded("beyond/fair_order", "equal-capacity")["difference"]
    assert (pairs > 0).all()
    return [f"{len(pairs)}", *(f"{v:.1f}".lstrip("0") for v in (pairs.min(), pairs.max()))]


def under_gaussian_noise():
    ours, printed = (recorded("biswas2024/table6", name) for name in ("ours", "printed"))
    both = ours.merge(
        printed, on=["data", "mechanism", "batch size", "pair"], suffixes=("", " printed")
    )
    own = both[both["mechanism"] == "Gaussian"]
    above, below = (own[m] > own[f"{m} printed"] for m in ("MSE", "SSIM"))
    return [f"{n}" for n in (above.sum(), len(own), (~below).sum(), len(own))]


def less_accurate():
    runs = recorded("biswas2024/table5", "runs").query("mechanism == 'Gaussian'")
    off = runs["mean"] - runs["printed"]
    return [f"{(off < 0).sum()}", f"{len(off)}", f"{-off.mean():.3f}".lstrip("0")]


def equally_accurate():
    run = (recorded("beyond/mechanism_or_calibration", t) for t in ("attack", "utility"))
    return at_equal_accuracy(*run)


def ahead():
    every = equally_accurate()
    parts = (every, every[every["kappa"] <= 500])
    return [f"{v:.2f}" for part in parts for v in part.groupby("n")["ahead"].mean()]


def cosines_at_equal_accuracy():
    mean = np.exp(equally_accurate().groupby("n")[["trained", "attacked"]].mean())
    trained = [f"{v:.2f}" for v in mean["trained"]]
    return [*trained, *(f"{v:.1f}" for v in mean["attacked"])]


def above_print():
    rows = recorded("biswas2024/table2", "rows")
    return percent((rows["MSE"] / rows["MSE printed"]).max() - 1)


def beside_print():
    ours, printed = (recorded("biswas2024/fig1", name) for name in ("ours", "printed"))
    keys = ["data", "mechanism", "batch size", "pair"]
    both = ours.merge(printed, on=keys, suffixes=("", " printed"))
    ratio = both["MSE"] / both["MSE printed"]
    largest = {m: ratio[both["mechanism"] == m] for m in ("Gaussian", "VMF")}
    return [
        *percent(largest["Gaussian"].max() - 1),
        f"{100 * (largest['VMF'] - 1).abs().max():.1f}",
    ]


# --- paper E and beyond ------------------------------------------------------------------------


def secrets():
    table = recorded("beyond/right_notion", "secrets")
    lower = 1 - table["weighted"] / table["old bound"]
    assert 0.3 < lower.min() < 0.4 and 0.6 < lower.max() < 0.7
    return []


def beside_the_mean_image():
    table = recorded("beyond/priors", "errors").query("sigma == 0.1").set_index("attacker")["MSE"]
    mean = recorded("beyond/priors", "lines").set_index("guess").loc["mean image", "MSE"]
    # "by half as much"
    assert 0.45 < table["mean and covariance"] / mean < 0.55
    return [f"{table['row mean'] / mean:.0f}"]


def named_digits(column, sigma):
    return recorded("beyond/priors", "named").set_index("sigma").loc[sigma, column]


def filtered_steps():
    table = quick("beyond/unlabelled_steps", "matching").query("`sigma over limit` == 1")
    return percent(*table.groupby("T")["share after a filter"].mean())


def mean_of_the_label():
    table = recorded("beyond/prior_on_run", "pairs").query("one == 'mean of the label'")
    return percent(table["ratio"].iloc[0])


def gains_of_awareness():
    table = quick("beyond/aware_attackers", "gains-by-defence").set_index("defence")
    gains = [
        [f"{value:.1f}" for value in table.loc[defence, ["gain", "low", "high"]]]
        for defence in ("LocalAggregation", "GradNoise", "GradDrop", "GradPrune")
    ]
    faint = quick("beyond/aware_attackers", "gains-by-batch").query(
        "setting.str.contains('=0.001')"
    )
    gains.insert(2, [f"{-faint['gain'].mean():.0f}"])
    return list(itertools.chain.from_iterable(gains))


def gains_of_matching():
    both = recorded("beyond/matching_arms", "gains").query("step == 'both'")
    signed = both.set_index("noise").loc[[0.0, 0.01, 0.001], ["PSNR", "standard error"]]
    found = signed.to_numpy() * [[-1, 1], [-1, 1], [1, 1]]
    return [f"{v:.1f}" for v in found.ravel()]


def gain_of_features_that_enter():
    gains = recorded("beyond/matching_arms", "gains").query("step == 'entering' and noise == 0")
    return [f"{-gains['PSNR'].item():.1f}"]


def kept_entries_alone():
    cells = recorded("liu2024/table2", "cells").pivot(
        index="setting", columns="batch size", values="ours"
    )
    alone = [name for name in cells.index if name.endswith("kept entries only")]
    assert (cells.loc[alone, 8] / cells.loc["None", 8]).between(2.5, 3.5).all()
    return []


def gains_within_their_errors():
    gains = recorded("liu2024/fig4", "gains").query("`batch size` == 8")
    gain, error = gains["PSNR"], gains["PSNR error"]
    assert ((gain > 0).sum(), len(gain), ((gain > 0) & (gain < error)).sum()) == (14, 15, 8)
    return []


def lowest_of_the_attacks():
    leads = recorded("liu2024/table4", "leads-of-the-proposed-attack")["lead"]
    printed = recorded("liu2024/table4", "printed").pivot(
        index=["batch size", "setting"], columns="attack", values="RMSE"
    )
    lowest = printed["Ours"] <= printed.min(axis=1)
    return [f"{n}" for n in ((leads > 0).sum(), len(leads), lowest.sum())]


def equal_weights():
    cells = recorded("liu2024/alg_reweight", "cells").query("metric == 'PSNR'")
    by = cells.pivot(index="batch size", columns="method", values=["value", "error"])
    gain = (by["value", "equal"] - by["value", "joint"]).mean()
    error = np.sqrt((by["error"][["equal", "joint"]] ** 2).to_numpy().sum()) / len(by)
    return [f"{gain:.1f}", f"{error:.1f}"]


def more_than_privacy_needs():
    noise = quick("liu2024/prop2_1", "noise")
    return [f"{(noise['2 L/epsilon^2'] / noise['needed']).max():.1f}"]


def noise_that_privacy_costs():
    price = quick("liu2024/prop2_1", "price")
    return [
        f"{round((price['variance, epsilon = 1'] / price['variance that hides']).mean(), -2):.0f}"
    ]


def lost_to_the_trace():
    table = quick("liu2024/lemD6", "orders").query("over == 'dimension'")
    assert 0.05 < (1 - table["loosened"] / table["exact"]).max() < 0.1
    return []


def left_by_half_pruned():
    error = quick("liu2024/prop3_4", "tensor-errors").groupby("pruned")["error"].min()
    assert error[error.index < 0.5].max() < 0.2 and error[error.index >= 0.5].min() > 0.8
    return []


def left_by_the_code():
    mean = quick("beyond/bit_layer", "errors").groupby(["sigma", "layer"])["MSE"].mean()
    assert mean[0.004, "coded"] > 1.1 * mean[0.004, "bits"]
    assert mean[0.001, "coded"] < mean[0.001, "bits"]
    return []


def left_by_heavy_pruning():
    """Entries for each pixel value of a batch of four, and errors with one in a hundred and all."""
    record = read_record(ROOT / "data/recorded/liu2024/fig2")
    left = []
    for profile, given in (
        ("quick", {}),
        ("paper", {}),
        ("paper", record.provenance.parameters),
    ):
        study = Study(profile=profile, data_root=ROOT, overrides={"liu2024/fig2": given})
        grid = Grid.of(study.context("liu2024/fig2"))
        entries = sum(p.numel() for p in network_of(grid).parameters())
        left.append(f"{entries / 100 / (4 * 3 * grid.side**2):.2g}")
    errors = record.tables["errors"].query("attack == 'GradientInversion'").set_index("setting")
    return [*left, *hundredths(*errors.loc[["GradPrune p=0.99", "None"], "RMSE"])]


def pruned_to_one_in_a_hundred():
    pruned = recorded("liu2024/fig2", "errors").query("setting == 'GradPrune p=0.99'")
    mean = recorded("liu2024/fig2", "references").query("attack == 'mean image'")
    return hundredths(*pruned["RMSE"], *mean["RMSE"])


def found_through_few_features():
    colours = recorded("hayes2023/fig6", "found").query("data == 'colour'")
    targets = read_record(ROOT / "data/recorded/hayes2023/fig6").settings["colour_targets"]
    most = colours["target is nearest"].max() * targets
    return [f"{most:.0f}", f"{targets}"]


SAID = (
    (
        "book/papers/hayes2023.md",
        r"the recorded search finds {} of {} images, whatever $\varepsilon$",
        found_through_few_features,
    ),
    (
        "book/papers/hayes2023.md",
        r"holds up to {} candidates, whatever $\varepsilon$; with the 2,048 of Figure 3 the error "
        "is up to ${}$, and ${}$ if",
        error_of_the_mean,
    ),
    (
        DEFENCES,
        "this part's errors are below {} whatever epsilon; with 512 below {}.",
        errors_of_the_mean_defended,
    ),
    (
        C + "03_without_candidates.py",
        "that is so ({}-fold on MNIST); with eight the factor is less than four",
        with_and_without_candidates,
    ),
    (
        ERRATA,
        "with the minus the score names the target in {}% of the trials, with the plus in {}%",
        lambda: names_the_target("sub-sampled", "likelihood", "as printed"),
    ),
    (
        ERRATA,
        "the product names the target in {}% of the trials",
        lambda: names_the_target("with a prior", "times prior"),
    ),
    (
        C + "05_threat_models.py",
        "they are up to {} below it in the recorded run",
        lambda: below_the_bound("fig9", "prior != ''")[:1],
    ),
    (
        C + "05_threat_models.py",
        "the second up to a gap of {} to {} at",
        lambda: below_the_bound("fig13", "series == 'C = 0.1' and score == 'sum'"),
    ),
    ("book/tour.md", "is {}, and the paper's three attacks reach {} (likelihood), {} and {}",
     attacks_and_bound),
    (ERRATA, "succeeds in {} of a million trials at epsilon = 4", lambda: simulated()[:1]),
    (ERRATA, "and in {} against 0.145 at epsilon = 1", lambda: simulated()[1:]),
    (
        C + "04_hyperparameters.py",
        r"for two candidates it is largest at $\varepsilon={}$, for ten at {} among",
        largest_change_over_q,
    ),
    (ERRATA, "{}, {} and {} of the MSE of X_hat at sigma = 0.015, 0.06 and 0.3", shrinking),
    (
        ERRATA,
        "On {} of {} photographs it is {} to {} of it, on a dark one {} times as much",
        offset_of_one_half,
    ),
    (ERRATA, "the NCC of {}% of {} digits, in the mean from {} to {}", clipping_the_copy),
    (ERRATA, "by {} dB at N = 1 and {} dB at N = 10", mean_psnr),
    (ERRATA, "the attack itself ends at an MSE of {} there", end_of_the_attack),
    (ERRATA, "all {} pairs of settings have the larger error under Gaussian noise, by {} to {}",
     equal_capacity),
    ("book/papers/biswas2024.md",
     "larger under VMF noise by {} and {} on average over equal accuracies, at the paper's "
     "concentrations by {} and {}", ahead),
    ("book/papers/biswas2024.md",
     "is {} and {} times VMF's, at first weights {} and {} times",
     cosines_at_equal_accuracy),
    (DEFENCES, "{} of {} MSEs lie above print and {} of {} SSIMs below", under_gaussian_noise),
    (DEFENCES, "under Gaussian noise {} of {} lie below print, by {} on average", less_accurate),
    ("book/papers/biswas2024.md", "under Gaussian noise {} of {} of ours lie below print, by $0{}$",
     less_accurate),
    (DEFENCES, "without defence ours are up to {} per cent larger", above_print),
    (DEFENCES, "MSEs are up to {} per cent larger here, while VMF's are within {} per cent",
     beside_print),
    ("notebooks/beyond/13_right_notion.py", "is a third to two thirds lower", secrets),
    (
        "book/index.md",
        "errs by {} times as much as the mean of other digits",
        beside_the_mean_image,
    ),
    (
        "notebooks/liu2024/04_the_proposed_attack.py",
        "loses {} ± {} dB without noise, {} ± {} under 0.01, and gains {} ± {} under 0.001",
        gains_of_matching,
    ),
    ("book/papers/liu2024.md", "features lose {} dB, in searches", gain_of_features_that_enter),
    ("book/papers/liu2024.md", "errors grow threefold in batches of eight", kept_entries_alone),
    (
        "book/papers/liu2024.md",
        "it gains in 14 of 15 settings, as in print, in eight by less than the error",
        gains_within_their_errors,
    ),
    (
        DEFENCES,
        "Here both attacks err by {} and {} then, for {} of the mean image",
        pruned_to_one_in_a_hundred,
    ),
    ("book/papers/ziller2024.md", "succeeds at {} %, and the NCC is at most {} %",
     first_row_of_table_1),
    (ERRATA, "by coordinate the bound is {}, {} and {} of the variance", bound_on_the_sphere),
    ("book/papers/mean_to_extreme.md", "a factor of {} to {} below the boxes of the MSE",
     below_the_boxes),
    ("book/papers/mean_to_extreme.md", "finds them up to {} of a noise that is known, and most of "
     "them at that noise if pictures are filtered first", matched_without_a_filter),
    ("notebooks/mean_to_extreme/06_better_than_optimal.py", "At 0.004 the code errs more",
     left_by_the_code),
    ("book/papers/hayes2023.md", "too small by {} orders of magnitude on MNIST",
     orders_of_magnitude),
    (ERRATA, "{} orders of magnitude larger on MNIST at rho = 0.6", orders_of_magnitude),
    (C + "05_threat_models.py", "its recorded success is {} to {}.", without_subtracting),
    (DEFENCES, "Measured on CIFAR-10 through EfficientNet-lite0: {}.", below_the_bound_on_colours),
    ("book/papers/biswas2024.md", "the Gaussian's have cosines of {} to {}.",
     cosines_of_gaussian_gradients),
    ("notebooks/biswas2024/01_accounting.py", "by {} to {} per cent",
     overestimated_by_the_conversion),
    ("notebooks/liu2024/02_lower_bounds.py", "private, with up to {} times the least variance",
     more_than_privacy_needs),
    ("notebooks/liu2024/02_lower_bounds.py", "the trace loses at most a tenth", lost_to_the_trace),
    ("notebooks/liu2024/02_lower_bounds.py", "fails once half is pruned", left_by_half_pruned),
    ("book/papers/beyond_batches.md", r"for $\varepsilon=1$ is about {} times the one at which",
     noise_that_privacy_costs),
    ("notebooks/liu2024/04_the_proposed_attack.py", "equal weights gain {} ± {} dB",
     equal_weights),
    ("notebooks/liu2024/05_defences_under_attack.py",
     "has the lowest mean in {} of {} settings ({} in print)", lowest_of_the_attacks),
    (
        "notebooks/liu2024/05_defences_under_attack.py",
        "leaves {} entries for each pixel value here, {} in the paper's network and {} in the "
        "recorded one, where gradient inversion errs by {}, for {} undefended",
        left_by_heavy_pruning,
    ),
    (
        "book/papers/beyond_runs.md",
        "clustering matches {}% and {}% of 100 and 400 steps",
        filtered_steps,
    ),
    (
        "book/papers/beyond_the_five.md",
        "of the label leaves {}% of the mean image's error",
        mean_of_the_label,
    ),
    (
        "book/index.md",
        "gains {} dB (interval {} to {}) against local steps, {} ({} to {}) against "
        "noise, of which the faintest costs {}, {} ({} to {}) against dropped entries, and {} ({} "
        "to {}) against pruning",
        gains_of_awareness,
    ),
    ("book/tour.md", "errs by {} times as much as the mean of other images", beside_the_mean_image),
    (
        "book/index.md",
        "and the last names {}% of the digits",
        lambda: percent(named_digits("release alone", 0.1)),
    ),
    (
        "book/index.md",
        "names {}% of the digits on a list of 21,000 at any noise",
        lambda: [f"{100 * named_digits('clipping factor', 1.0):.1f}"],
    ),
)  # fmt: skip


def words(file):
    """A file's text on one line, without the marks of comments."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return " ".join(re.sub(r"^# ?", "", text, flags=re.MULTILINE).split())


@pytest.mark.parametrize(("file", "sentence", "numbers"), SAID, ids=[row[1][:60] for row in SAID])
def test_prose_gives_the_tables_numbers(file, sentence, numbers):
    found = sentence
    for number in numbers():
        found = found.replace("{}", number, 1)
    assert "{}" not in found
    assert found in words(file)
