"""What practitioners ask of a run beside its own report: canaries, correlated noise, tuning."""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from typer.testing import CliRunner

from reconrisk import DPSGD, bounds, privacy, risk
from reconrisk.cli.app import app
from reconrisk.privacy import MatrixMechanism, square_root_encoder, tree_encoder
from reconrisk.privacy._conversions import renyi_gaussian

RUN = DPSGD(1.1, 256 / 60_000, 3516)


# Canaries ----------------------------------------------------------------------------------------


def test_exposure_of_a_canary_is_a_right_guess_with_so_many_tries():
    rng, n, mu, trials = np.random.default_rng(0), 512, 2.0, 4000
    # n candidates with orthogonal gradients, one of them there: ranked by their scores
    score = rng.standard_normal((trials, n))
    score[:, 0] += mu
    rank = 1 + np.sum(score[:, 1:] > score[:, :1], axis=1)
    exposure = math.log2(n) - np.log2(rank)
    full = DPSGD(1.0 / mu)
    for bits in (1.0, 4.0, 8.0):
        share = np.mean(exposure >= bits)
        most = bounds.rero(full, 2.0**-bits).upper
        error = 3.0 * math.sqrt(most * (1.0 - most) / trials)
        # many candidates reach the bound, less what a threshold that is not known costs
        assert 0.8 * most - error <= share <= most + error
    assert bounds.rero([privacy.Group(RUN, 4)], 2.0**-10).lower > 2.0**-10


# Correlated noise --------------------------------------------------------------------------------


def test_correlated_noise_is_one_release():
    run = risk.correlated_run(
        "square-root", noise_multiplier=2.0, steps=64, bands=4, period=16, order="same"
    )
    mechanism = MatrixMechanism(square_root_encoder(64, 4), 2.0, 16)
    length = max(np.linalg.norm(mechanism.encoder[:, j::16].sum(axis=1)) for j in range(16))
    assert run.noise_multiplier == pytest.approx(2.0 / length) and run.sampling_rate == 1.0
    report = risk.assess(run, risk.record(dimension=784, data_range=1.0))
    exact = stats.norm.cdf(stats.norm.ppf(0.1) + length / 2.0)
    assert report["rero[prior_size=10]"].value == pytest.approx(exact, rel=1e-9)
    assert "Noise correlated between 64 steps" in report.run.notes[0]
    tree = risk.correlated_run("tree", noise_multiplier=3.0, steps=10)
    assert tree.noise_multiplier == pytest.approx(3.0 / math.sqrt(4.0))
    assert (
        tree.noise_multiplier == MatrixMechanism(tree_encoder(10), 3.0).gaussian().noise_multiplier
    )


def test_correlated_noise_covers_epochs_that_are_shuffled_anew():
    settings = dict(noise_multiplier=4.0, steps=468)
    once, same, shuffled = (
        risk.correlated_run("tree", **settings, **more)
        for more in ({}, {"period": 234, "order": "same"}, {"period": 234})
    )
    # steps 232 and 234 (from 0) have nodes in common that no two steps at a distance of 234 have
    tree = tree_encoder(468)
    assert np.linalg.norm(tree[:, 232] + tree[:, 234]) == pytest.approx(32**0.5)
    assert shuffled.noise_multiplier == pytest.approx(4.0 / 32**0.5)
    assert same.noise_multiplier == pytest.approx(4.0 / 20**0.5)
    epsilons = [risk.assess(run)["epsilon"].value for run in (once, same, shuffled)]
    assert epsilons == sorted(epsilons)
    assert "each record in at most one step of the whole run" in once.notes[0]
    assert "at most one of every 234 steps, in every epoch in the same order" in same.notes[0]
    assert "at most one of every 234 steps, in any order, new in every epoch" in shuffled.notes[0]


def test_the_rate_of_batches_drawn_in_secret_is_that_of_a_part():
    run = risk.correlated_run(
        "square-root", noise_multiplier=1.1, steps=3516, bands=8, sampling_rate=8 * 256 / 60_000
    )
    assert run.steps == math.ceil(3516 / 8)
    assert "part i modulo 8 with probability 0.0341333" in run.notes[0]
    assert "0.00427 of all records on average" in run.notes[0]
    # batches of the same size say more than the rate of a run without parts makes them
    smaller = risk.correlated_run(
        "square-root", noise_multiplier=1.1, steps=3516, bands=8, sampling_rate=256 / 60_000
    )
    assert risk.assess(run)["epsilon"].lower > 5.0 * risk.assess(smaller)["epsilon"].upper


def test_the_least_correlated_noise_is_that_which_is_given():
    def described(sigma):
        return risk.correlated_run("tree", noise_multiplier=sigma, steps=3516)

    run, plain = described(4.0), risk.training_run(noise_multiplier=1, sampling_rate=1, steps=1)
    found = risk.least_noise("epsilon", 1.0, run)
    # a column of the tree has 12 ones
    least = risk.least_noise("epsilon", 1.0, plain).noise_multiplier
    assert found.noise_multiplier == pytest.approx(least * 12**0.5, rel=1e-6)
    again = described(found.noise_multiplier)
    assert again.noise_multiplier == pytest.approx(found.run.noise_multiplier, rel=1e-12)
    assert risk.assess(again)["epsilon"].value <= 1.0 + 1e-9
    assert risk.assess(described(0.999 * found.noise_multiplier))["epsilon"].value > 1.0
    assert "multiplier is 12.9233 before" in found.run.notes[0]
    assert "length" not in found.run.as_dict()
    # and so is the noise that halves the risk
    words = next(j for j in risk.assess(run).judgements if j.key == "halving").text
    goal = 0.1 + 0.5 * (risk.assess(run)["rero[prior_size=10]"].value - 0.1)
    half = risk.least_noise("rero", goal, run, at=10).noise_multiplier
    assert half > 4.0 and words.startswith(f"A noise multiplier of {half:.2g}")
    assert "instead of 4 halves" in words


def test_one_band_drawn_in_secret_is_plain_training():
    run = risk.correlated_run(
        "square-root", noise_multiplier=1.1, steps=300, bands=1, sampling_rate=0.02
    )
    assert run.dpsgd == DPSGD(1.1, 0.02, 300)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"encoder": "banded"}, "encoder must be one of tree, square-root"),
        ({"encoder": "tree", "bands": 3}, "bands must be left out"),
        ({"encoder": "tree", "sampling_rate": 0.1}, "sampling_rate must be left out"),
        ({"encoder": "square-root", "bands": 11}, "bands must be"),
        ({"encoder": "square-root", "period": 0}, "period must be"),
        ({"encoder": "tree", "steps": 5001}, "steps must be"),
        ({"encoder": "tree", "epochs": 3}, "epochs must be left out"),
        ({"encoder": "tree", "order": "shuffled"}, "order must be one of any, same"),
        (
            {"encoder": "square-root", "bands": 2, "sampling_rate": 0.1, "period": 5},
            "period must be left out with a sampling_rate.*got 5",
        ),
        (
            {"encoder": "square-root", "bands": 2, "sampling_rate": 0.1, "order": "same"},
            "order must be left out with a sampling_rate",
        ),
    ],
)
def test_correlated_noise_that_cannot_be(fields, why):
    with pytest.raises(risk.SettingError, match=why):
        risk.correlated_run(**{"noise_multiplier": 1.0, "steps": 10, **fields})


def test_correlated_noise_on_the_command_line(tmp_path):
    flags = ["risk", "--sigma", "2", "--steps", "64", "--correlation"]
    found = CliRunner().invoke(app, [*flags, "encoder=square-root, bands=4, period=16"])
    assert found.exit_code == 0 and "Noise correlated between 64 steps" in found.stdout
    file = tmp_path / "run.yaml"
    file.write_text("noise_multiplier: 2\nsteps: 64\ncorrelation: {encoder: tree}\n")
    assert CliRunner().invoke(app, ["risk", "--config", str(file)]).exit_code == 0
    for bad, why in (
        ("bands=4", "encoder must be given"),
        ("encoder=tree, size=3", "size must be one of"),
        ("tree", "correlation must be fields such as"),
    ):
        found = CliRunner().invoke(app, [*flags, bad])
        assert found.exit_code == 2 and why in found.output
    found = CliRunner().invoke(app, [*flags, "encoder=tree", "--batch-size", "3"])
    assert found.exit_code == 2 and "dataset_size must be" in found.output
    # the target's noise is the flag's
    found = CliRunner().invoke(app, [*flags, "encoder=tree", "--target", "epsilon=1", "-f", "json"])
    words = json.loads(found.stdout)["notes"][0]
    value = words.removeprefix("Noise multiplier ").split(" ")[0]
    assert words.startswith(f"Noise multiplier {value} before it is decoded: the least")
    for sigma, met in ((float(value), True), (0.999 * float(value), False)):
        run = risk.correlated_run("tree", noise_multiplier=sigma, steps=64)
        assert (risk.assess(run)["epsilon"].value <= 1.0) is met


# Tuning ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "shape"), [("geometric", 1.0), ("logarithmic", 0.0), ("poisson", math.inf)]
)
@pytest.mark.parametrize("runs", [3.0, 100.0])
def test_tuning_costs_what_another_accountant_says(law, shape, runs):
    accountant = RdpAccountant(orders=[*range(2, 64), *range(64, 2048, 16)])
    sampled = dp_event.PoissonSampledDpEvent(RUN.sampling_rate, dp_event.GaussianDpEvent(1.1))
    event = dp_event.SelfComposedDpEvent(sampled, RUN.steps)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(event, runs, shape))
    theirs, ours = accountant.get_epsilon(1e-5), privacy.tuned_epsilon(RUN, 1e-5, runs, law)
    # Poisson's chance is bounded by the certified delta here, which is smaller
    assert ours <= theirs * 1.01 and (ours >= 0.7 * theirs)
    assert ours > privacy.epsilon(RUN, 1e-5).lower


@pytest.mark.parametrize(("law", "shape"), [("geometric", 1.0), ("logarithmic", 0.0)])
def test_tuning_is_no_dearer_than_another_accountant_s_with_orders_below_two(law, shape):
    run = DPSGD(0.626, 0.195, 243)
    sampled = dp_event.PoissonSampledDpEvent(0.195, dp_event.GaussianDpEvent(0.626))
    event = dp_event.SelfComposedDpEvent(sampled, 243)
    accountant = RdpAccountant()
    accountant.compose(dp_event.RepeatAndSelectDpEvent(event, 100.0, shape))
    assert privacy.tuned_epsilon(run, 1e-5, 100.0, law) <= accountant.get_epsilon(1e-5)


@pytest.mark.parametrize(
    ("sigma", "q", "order"),
    [(0.626, 0.195, 1.1), (0.3, 0.5, 2.5), (0.1, 0.01, 1.01), (30, 0.5, 9.9)],
)
def test_divergences_of_fractional_orders_are_rounded_up(sigma, q, order):
    def moment(x):
        return mpmath.npdf(x) * (1 - q + q * mpmath.exp(x / sigma - 0.5 / sigma**2)) ** order

    ends = np.linspace(-30.0, 30.0 + order / sigma, 80).tolist()
    exact = float(mpmath.log(mpmath.quad(moment, ends)) / (order - 1.0))
    (found,) = renyi_gaussian(DPSGD(sigma, q), [order])
    assert exact <= found <= exact * (1.0 + 1e-9) + 1e-9
    whole = DPSGD(sigma, q), [2.0, 3.0]
    near = renyi_gaussian(whole[0], [2.0 + 1e-12, 3.0 + 1e-12])
    assert near == pytest.approx(renyi_gaussian(*whole), rel=1e-8, abs=1e-11)


def test_a_fixed_number_of_runs_composes():
    assert privacy.tuned_epsilon(RUN, 1e-5, 1) == privacy.epsilon(RUN, 1e-5).upper
    whole = DPSGD(1.1, RUN.sampling_rate, 5 * RUN.steps)
    assert privacy.tuned_epsilon(RUN, 1e-5, 5) == privacy.epsilon(whole, 1e-5).upper
    # on the full batch too
    assert privacy.tuned_epsilon(DPSGD(5.0), 1e-5, 10, "poisson") < 3.0
    for bad in ({"runs": 0}, {"runs": 2.5}, {"runs": 1.0, "law": "poisson"}, {"law": "uniform"}):
        with pytest.raises(ValueError, match="must be"):
            privacy.tuned_epsilon(RUN, 1e-5, **{"runs": 3, **bad})


# The report --------------------------------------------------------------------------------------


def judged(report, key):
    return next(j for j in report.judgements if j.key == key)


def test_words_fit_the_chances_beside_them():
    for sigma, words in ((1.1, "somewhat better"), (8.0, "hardly better"), (0.7, "better")):
        run = risk.training_run(noise_multiplier=sigma, sampling_rate=256 / 60_000, steps=3516)
        report = risk.assess(run)
        verdict = judged(report, "matching").verdict
        assert verdict == f"{words} than guessing"
        assert (report["rero[prior_size=10]"].upper <= 0.11) == verdict.startswith("hardly")


def test_a_report_names_groups_layers_and_phases():
    settings = {"sampling_rate": 0.01, "group_size": 10, "layers": 4}
    phases = [{"noise_multiplier": 1.3, "steps": 10}, {"noise_multiplier": 0.9, "steps": 5}]
    for given in ({"noise_multiplier": 1.1, "steps": 10}, {"phases": phases}):
        page = str(risk.assess(risk.training_run(**settings, **given)))
        top = " ".join(page.split("In plain words")[0].split())
        assert "group size 10" in top and "layers 4" in top
        assert ("noise multiplier" in top) != ("2 phases sigma 1.3" in top)
        assert "best of several on the same data, privacy.tuned_epsilon" in " ".join(page.split())


def test_advantage_with_hardly_any_noise_is_nearly_certain():
    run = risk.training_run(noise_multiplier=0.01, sampling_rate=64 / 60_000, steps=4688)
    entry = risk.assess(run)["membership_advantage"]
    # the record is in some batch with a chance of 1 - (1 - q)^T
    exact = -math.expm1(4688 * math.log1p(-64 / 60_000))
    assert 0.99 * exact < entry.lower <= exact * (1 + 1e-9) and entry.upper >= exact


def test_what_a_sampler_leaves_open_is_said_plainly():
    run = risk.training_run(noise_multiplier=1.1, sampling_rate=0.1, steps=20, sampler="shuffle")
    report = risk.assess(run)
    assert not report["mse"].reason.endswith("needs the noise")
    assert "side by side" in judged(report, "halving").text
    known = risk.assess(risk.from_guarantee({"epsilon": 3.0, "delta": 1e-5}))
    assert known["mse"].reason.endswith("needs the noise")
    assert "all that the report knows" in judged(known, "halving").text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_is_named():
    found = CliRunner().invoke(app, ["risk", "--sigma", "2", "-q", "1", "--steps", "4", "--out",
                                     "/dev/full"])  # fmt: skip
    assert found.exit_code == 2 and "/dev/full cannot be written: No space" in found.output


def test_correlated_noise_is_not_promised_another_sampler():
    run = risk.correlated_run(
        "square-root", noise_multiplier=2.0, steps=256, bands=8, sampling_rate=0.05
    )
    (warning,) = risk.assess(run).warnings
    assert warning.startswith("Every number assumes Poisson sampling")
    assert "exactly once an epoch" not in warning and "sampler" not in warning


# Words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "batch", "epochs", "steps", "epsilon"),
    [(300, 256, 100, 200, 128.1), (100, 99, 3, 6, 12.79), (60_000, 256, 15, 3525, 1.353)],
)
def test_an_epoch_has_the_steps_that_training_takes(size, batch, epochs, steps, epsilon):
    """As a loader that keeps the last batch, and our own training, with their epsilon."""
    settings = {"noise_multiplier": 1.0, "batch_size": batch, "dataset_size": size}
    run = risk.training_run(**settings, epochs=epochs)
    assert run.steps == steps == epochs * math.ceil(size / batch)
    assert risk.assess(run)["epsilon"].value == pytest.approx(epsilon, rel=1e-3)
    phases = risk.training_run(**settings, phases=[{"epochs": epochs - 1}, {"epochs": 1}])
    assert phases.steps == steps
    for accepted in (math.ceil(epochs * size / batch), steps):
        assert risk.training_run(**settings, epochs=epochs, steps=accepted).steps == accepted


def test_a_report_on_correlated_noise_does_not_speak_of_poisson_samples():
    run = risk.correlated_run("tree", noise_multiplier=8.0, steps=64)
    report = risk.assess(run)
    for key in ("rero[prior_size=10]", "power[false_positive_rate=0.01]"):
        words = " ".join(report[key].assumptions)
        assert "Noise correlated between 64 steps" in words and "sampling rate" not in words


def test_a_target_of_an_interval_is_proven_to_be_kept():
    asked = ["risk", "--target", "rero=0.3", "--at", "10", "--sampling-rate", "0.01"]
    exact = CliRunner().invoke(app, [*asked, "--steps", "200"]).stdout
    assert "the least that keeps 'Success with 10 candidates' at most 0.3." in " ".join(
        exact.split()
    )
    wide = CliRunner().invoke(app, [*asked, "--steps", "200", "--sampler", "shuffle"]).stdout
    assert "the least proven to keep 'Success with 10" in " ".join(wide.split())
    # a limit next to a blind guess is kept by less noise than can be shown, and any by all noise
    guess = [*asked[:2], "rero=0.100001", *asked[3:], "--steps", "100"]
    assert "the least proven to keep" in CliRunner().invoke(app, guess).stdout
    for sampler, target in (("fixed", "rero=0.9999"), ("shuffle", "epsilon=1000")):
        some = ["risk", "--target", target, "--sampling-rate", "0.1", "--steps", "20"]
        at = ["--at", "10"] if "rero" in target else []
        found = CliRunner().invoke(app, [*some, *at, "--sampler", sampler])
        assert found.exit_code == 0 and "Noise multiplier 0.05: any noise keeps" in found.stdout


def test_layers_beside_opacus_are_named_as_given():
    with pytest.raises(ValueError, match=r"layers must be left out.*; got 4"):
        risk.from_opacus([(1.1, 0.01, 10)], layers=4)
