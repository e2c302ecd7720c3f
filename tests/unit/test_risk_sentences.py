"""What a report says never contradicts its numbers: adjacency, order of severity, rounding."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import numpy as np
import pytest
from dp_accounting import dp_event as events

from reconrisk import DPSGD, privacy, risk
from reconrisk.privacy import SampledRun
from reconrisk.risk._judgement import values_words
from reconrisk.risk._numbers import describe_value
from reconrisk.risk._report import setting_lines
from reconrisk.risk._warnings import warnings_of

MNIST = {"noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60_000, "epochs": 15}


def judged(report: risk.Report, key: str) -> risk.Judgement:
    return next(j for j in report.judgements if j.key == key)


# Adjacency ---------------------------------------------------------------------------------------


def test_fixed_batches_answer_for_removal_and_name_it():
    report = risk.assess(risk.training_run(sampler="fixed", **MNIST))
    assert report["epsilon"].upper == pytest.approx(7.825, abs=1e-3)
    assert report["power[false_positive_rate=0.01]"].lower > 0.135
    zeroed = risk.assess(risk.training_run(sampler="fixed", adjacency="zero-out", **MNIST))
    assert zeroed["epsilon"].upper < 6.6
    # candidates are held against a record of gradient zero, whatever the adjacency
    keys = ("rero[prior_size=10]", "rero[prior_size=1000000]")
    assert [report[k].upper for k in keys] == [zeroed[k].upper for k in keys]
    assert "(no record in its place)" in dict(setting_lines(report))["adjacency"]
    assert "one with no record in its place" in judged(report, "membership").text
    assert "The neighbouring data set has no record" in report["epsilon"].assumptions[0]
    assert report.as_dict()["run"]["adjacency"] == "add-remove"


def test_shuffled_batches_are_proven_for_a_zeroed_record_only():
    for sampler in ("shuffle", "cyclic"):
        assert risk.training_run(sampler=sampler, **MNIST).adjacency == "zero-out"
        for adjacency in ("add-remove", "replace"):
            with pytest.raises(risk.SettingError, match="adjacency must be zero-out for sampler"):
                risk.training_run(sampler=sampler, adjacency=adjacency, **MNIST)


def test_a_replaced_record_is_enclosed_and_two_norms_away_on_the_full_batch():
    whole = {"noise_multiplier": 2.0, "sampling_rate": 1.0, "steps": 3}
    replaced = risk.assess(risk.training_run(adjacency="replace", **whole))
    halved = risk.assess(risk.training_run(**{**whole, "noise_multiplier": 1.0}))
    assert replaced["epsilon"].upper == pytest.approx(halved["epsilon"].upper, rel=1e-6)
    mu = re.search(r"mu = ([0-9.]+)", judged(replaced, "membership").text)
    assert mu is not None and float(mu[1]) >= math.sqrt(3.0)
    some = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 10}
    # the exact two-sided pair of one step lies in the enclosure
    one = risk.assess(
        risk.training_run(adjacency="replace", **{**some, "steps": 1}),
        None,
        risk.questions(false_positive_rates=(0.05,)),
    )["power[false_positive_rate=0.05]"]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 10**6)) + np.where(rng.random((2, 10**6)) < 0.1, [[1.0], [-1.0]], 0)

    def ratio(x):
        return (0.9 + 0.1 * np.exp(x - 0.5)) / (0.9 + 0.1 * np.exp(-x - 0.5))

    power = np.mean(ratio(x[0]) > np.quantile(ratio(x[1]), 0.95))
    assert one.lower - 1e-3 <= power <= one.upper + 1e-3
    for more in ({"group_size": 2}, {"phases": [{"noise_multiplier": 2.0}, {}]}):
        with pytest.raises(risk.SettingError, match="adjacency"):
            risk.training_run(adjacency="replace", **some, **more)


def test_opacus_shows_the_number_of_records():
    run = risk.from_opacus([(4.0, 0.5, 2)])
    assert run.adjacency == "zero-out" and "taken as public" in run.notes[0]
    with pytest.raises(risk.SettingError, match="adjacency must be zero-out or replace: Opacus"):
        risk.from_opacus([(4.0, 0.5, 2)], adjacency="add-remove")
    # its noise is relative to the norm of all layers' bounds already
    with pytest.raises(risk.SettingError, match="layers must be left out"):
        risk.from_opacus([(4.0, 0.5, 2)], layers=4)


# What others record ------------------------------------------------------------------------------


def test_an_event_with_fixed_batches_is_such_a_run():
    one = events.SampledWithoutReplacementDpEvent(1000, 50, events.GaussianDpEvent(1.5))
    run = risk.from_dp_event(events.SelfComposedDpEvent(one, 20))
    assert (run.sampler, run.adjacency, run.steps) == ("fixed", "replace", 20)
    exact = privacy.epsilon(SampledRun(1.5, 0.05, 20, "fixed", "replace"), 1e-5)
    assert risk.assess(run)["epsilon"].upper == exact.upper
    assert risk.from_dp_event(one, adjacency="zero-out").adjacency == "zero-out"
    with pytest.raises(TypeError, match="reads dataset_size from the event"):
        risk.from_dp_event(one, dataset_size=3)


@pytest.mark.parametrize("name", ["sample_rate", "sampling_probability"])
def test_a_name_of_another_library_is_answered_with_ours(name):
    with pytest.raises(TypeError, match=f"has no argument {name}; did you mean sampling_rate"):
        risk.training_run(noise_multiplier=1.0, steps=3, **{name: 0.1})


def test_a_key_that_is_not_there_lists_those_that_are():
    report = risk.assess(risk.training_run(noise_multiplier=1.0, sampling_rate=1.0, steps=1))
    with pytest.raises(KeyError, match=r"rero; the report has epsilon.*rero\[prior_size=10\]"):
        report["rero"]


# Samplers, schedules, correlation ----------------------------------------------------------------


def test_the_steps_of_other_samplers_make_the_same_pictures():
    record = risk.record(dimension=784, data_range=1.0, data_norm=9.2)
    found = {
        sampler: risk.assess(risk.training_run(sampler=sampler, **MNIST), record)
        for sampler in ("poisson", "fixed", "shuffle")
    }
    assert found["fixed"]["psnr"].value == found["poisson"]["psnr"].value
    # fifteen copies, one an epoch
    assert found["shuffle"]["mse"].value == pytest.approx((1.1 * 9.2) ** 2 / 15)
    header = dict(setting_lines(found["shuffle"]))
    assert header["noise multiplier"] == "1.1" and header["sampler"] == "shuffle"
    assert "at least 6.01" in judged(found["shuffle"], "membership").text
    assert describe_value(found["shuffle"]["epsilon"]) == "between 6.01 and 20.6"


def test_a_schedule_costs_its_epochs_and_not_its_entries():
    schedule = [(1.1 - 1e-6 * i, 256 / 60_000, 1) for i in range(3516)]
    (warning,) = warnings_of(risk.from_opacus(schedule))
    found = re.search(r"at most ([0-9.]+), the cost of ([0-9]+) full-batch", warning)
    # 15.0016 epochs
    assert found is not None and found[2] == "16"
    assert float(found[1]) == pytest.approx(21.6, abs=0.2)


def test_correlated_noise_is_headed_by_what_was_given():
    header = dict(setting_lines(risk.assess(
        risk.correlated_run("tree", noise_multiplier=5.0, steps=100)
    )))  # fmt: skip
    assert header["noise multiplier before it is decoded"] == "5"
    assert "noise multiplier" not in header and "100 steps" in header["noise"]
    assert header["as private as"].startswith("noise multiplier 1.88982")


# Records -----------------------------------------------------------------------------------------


def test_a_record_of_a_table_has_no_face():
    run = risk.training_run(
        noise_multiplier=1.5, batch_size=20, dataset_size=200, epochs=30, delta=1e-3
    )
    table = {"dimension": 30, "data_range": 6.0, "data_norm": 5.5}
    values = judged(risk.assess(run, risk.record(**table)), "picture")
    assert values.verdict == "hardly better than a guess"
    assert not re.search("face|writing|grain|picture", values.text)
    assert "face" in judged(risk.assess(run, risk.record(picture=True, **table)), "picture").text
    assert len({values_words(noise)[0] for noise in (0.01, 0.1, 0.2, 1.0)}) == 4


@pytest.mark.parametrize(("norm", "span", "warned"), [
    (9.2, 255.0, True), (200.0, 1.0, True), (9.2, 1.0, False), (28.0, 1.0, False),
])  # fmt: skip
def test_units_of_range_and_norm_are_compared(norm, span, warned):
    run = risk.training_run(noise_multiplier=1.0, sampling_rate=1.0, steps=1)
    record = risk.record(dimension=784, data_range=span, data_norm=norm)
    assert any("same units" in text for text in risk.assess(run, record).warnings) is warned


# Output ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_an_output_that_is_not_utf_8_is_written(form):
    command = [sys.executable, "-m", "reconrisk.cli", "risk", "-s", "1", "-q", "1", "-t", "1"]
    found = subprocess.run(
        [*command, "--format", form], capture_output=True, check=False,
        env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert found.returncode == 0 and b"Traceback" not in found.stderr
    assert found.stdout.decode("utf-8" if form == "markdown" else "cp1252")


# Every sentence against its numbers --------------------------------------------------------------

#: words from the mildest to the gravest
SEVERITY = {
    "matching": ["hardly better than guessing", "somewhat better than guessing",
                 "better than guessing", "mostly right among a few", "can be named"],
    "attribute": ["hardly", "somewhat", "largely"],
    "any_attack": ["next to nothing", "little", "more than one attribute", "possibly all of it"],
}  # fmt: skip


def draw(seed: int) -> risk.TrainingRun:
    rng = np.random.default_rng(seed)
    sampler = rng.choice(["poisson", "poisson", "fixed", "shuffle", "cyclic"])
    return risk.training_run(
        noise_multiplier=float(f"{10 ** rng.uniform(-0.3, 1.0):.3g}"),
        sampling_rate=float(rng.choice([1.0, 0.1, 0.01])),
        steps=int(10 ** rng.uniform(0.0, 2.5)),
        sampler=str(sampler),
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_sentence_contradicts_its_numbers(seed):
    report = risk.assess(draw(seed))
    levels = {key: words.index(judged(report, key).verdict) for key, words in SEVERITY.items()}
    # words on information are never milder than those on naming and on attributes
    assert levels["any_attack"] >= {0: 0, 1: 1, 2: 1, 3: 2, 4: 3}[levels["matching"]]
    assert levels["any_attack"] >= levels["attribute"]
    if "more" in (verdict := judged(report, "any_attack").verdict) or "all" in verdict:
        assert judged(report, "anonymity").verdict != "speaks for it"
    # what is at most is rounded up, and the table says no less than the sentence
    membership = judged(report, "membership").text
    found = re.search(r"Epsilon is at most ([0-9.e+]+)", membership)
    assert found is not None and float(found[1]) >= report["epsilon"].upper
    assert found[1] in describe_value(report["epsilon"])
    shown = re.search(r"at most ([0-9.]+)% of the members", membership)
    power = report["power[false_positive_rate=0.01]"].upper
    assert shown is not None and float(shown[1]) >= 100.0 * power * (1.0 - 1e-9)
    # a mu bounds the whole curve, so its epsilon too
    mu = re.search(r"mu = ([0-9.e+-]+) ", membership)
    if mu is not None:
        worst = privacy.epsilon(DPSGD(1.0 / float(mu[1])), 1e-5)
        assert worst.upper >= report["epsilon"].upper * (1.0 - 1e-9)
    # a blind guess has ten per cent of ten, half of two, and one in a hundred
    matching = re.search(r"names it with at most ([0-9.]+)%", judged(report, "matching").text)
    assert matching is not None and float(matching[1]) >= 10.0
    two = re.search(r"right at most ([0-9.]+)% of", judged(report, "attribute").text)
    assert two is not None and float(two[1]) >= 50.0 and float(shown[1]) >= 1.0
    assert "accept 9%" not in judged(report, "matching").text


# Raw messages ------------------------------------------------------------------------------------


def test_messages_name_what_was_given():
    with pytest.raises(
        risk.SettingError, match="guarantee orders and divergences must be two lists"
    ):
        risk.from_guarantee({"orders": [2, 3], "divergences": [1.0]})
    with pytest.raises(risk.SettingError, match=r"guarantee orders must be in \(1, inf\)"):
        risk.from_guarantee({"orders": [0.5, 3], "divergences": [1.0, 2.0]})
    run = risk.training_run(noise_multiplier=1e-4, sampling_rate=1.0, steps=2)
    reason = risk.assess(run, risk.record(dimension=784))["direction_error"].reason
    assert reason == "the direction is computed from a noise multiplier of 0.000141 on"


def test_an_unfinished_epoch_takes_a_record_with_the_share_of_its_batches():
    run = risk.training_run(
        noise_multiplier=0.05, sampling_rate=0.001, steps=100, sampler="random-allocation"
    )
    assert (run.as_told.sampling_rate, run.as_told.steps) == (0.1, 1)
    report = risk.assess(run, risk.record(dimension=784, data_range=1.0, data_norm=1.0))
    assert "In 90% of runs no step takes the record" in judged(report, "picture").text


def test_an_interval_of_replacement_shows_both_ends():
    given = {"noise_multiplier": 0.5, "sampling_rate": 0.01, "steps": 100, "adjacency": "replace"}
    report = risk.assess(risk.training_run(sampler="fixed", **given))
    assert "likelihood ratio test" not in report["epsilon"].tightness
    long = {"noise_multiplier": 1.0, "sampling_rate": 0.001, "steps": 9000, "sampler": "shuffle"}
    wide = risk.assess(risk.training_run(**long))
    assert "what lies between is not known" in judged(wide, "membership").text
    # of Poisson samples it is known
    known = risk.assess(risk.training_run(**given))
    assert "what lies between" not in judged(known, "membership").text
    assert "are opposite in every step" in known["epsilon"].tightness
    assert known["epsilon"].upper - known["epsilon"].lower < 1e-3 * known["epsilon"].upper
