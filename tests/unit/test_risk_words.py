"""What a report says in words: warnings, judgements, what it collapses; and where it stops."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from reconrisk import DPSGD, bounds, privacy, risk
from reconrisk.cli import console
from reconrisk.cli.app import app
from reconrisk.risk._judgement import PICTURE_SIDE, picture_words, thumbnail_psnr
from reconrisk.risk._numbers import chance, describe_value, number, says_nothing
from reconrisk.risk._report import nothing_useful, plain, rest
from reconrisk.risk._text import columns
from reconrisk.risk._warnings import warnings_of

RUN = risk.training_run(
    noise_multiplier=1.1, batch_size=256, dataset_size=60_000, epochs=15, delta=1e-6
)
PICTURE = risk.record(dimension=784, data_norm=9.2, data_range=1.0, picture=True)


@pytest.fixture(scope="module")
def report() -> risk.Report:
    return risk.assess(RUN, PICTURE)


def judged(report: risk.Report, key: str) -> risk.Judgement:
    return next(j for j in report.judgements if j.key == key)


# Warnings ----------------------------------------------------------------------------------------


def full(**given: object) -> risk.TrainingRun:
    return risk.training_run(**{"noise_multiplier": 1.0, "sampling_rate": 1.0, "steps": 1, **given})


def test_a_delta_above_one_over_n_is_warned_of():
    assert not risk.assess(full(dataset_size=10_000)).warnings
    (warning,) = risk.assess(full(dataset_size=10_000_000)).warnings
    assert "delta = 1e-05" in warning and "1/n = 1e-07" in warning and "10,000,000" in warning
    assert judged(risk.assess(full(dataset_size=10**7)), "membership").verdict.startswith("delta")
    # the number of records may follow from batch and rate
    run = full(sampling_rate=1e-3, batch_size=1000)
    assert any("1/n = 1e-06 for n = 1,000,000" in text for text in risk.assess(run).warnings)


def test_a_rate_that_does_not_fit_the_records_is_warned_of():
    run = full(sampling_rate=1e-5, dataset_size=1000, steps=3)
    assert any("0.01 records on average" in text for text in risk.assess(run).warnings)


def test_poisson_sampling_is_named_and_shuffling_bounded():
    (warning,) = risk.assess(RUN).warnings
    assert "Poisson" in warning and "shuffles" in warning and "fixed size" in warning
    # one release an epoch, the order known: the Gaussian mechanism composed fifteen times
    most = privacy.epsilon(DPSGD(1.1, 1.0, 15), 1e-6).upper
    assert f"epsilon is at most {number(most, 'up')}, the cost of 15 full-batch steps" in warning
    assert most > risk.assess(RUN)["epsilon"].upper
    assert not risk.assess(full()).warnings


def test_the_warning_on_sampling_counts_every_phase_by_itself():
    # five full batches are no samples, but a thousand steps are: ten passes
    for phases, steps in (
        ([(1.1, 1.0, 5), (1.1, 0.01, 1000)], 15),
        ([(1.1, 0.5, 5), (1.1, 0.01, 1000)], 13),
    ):
        (warning,) = risk.assess(risk.from_opacus(phases)).warnings
        most = privacy.epsilon(DPSGD(1.1, 1.0, steps), 1e-5).upper
        assert f"at most {number(most, 'up')}, the cost of {steps} full-batch steps" in warning
        assert "phases of one sampling rate follow each other as listed" in warning
        # a sampler is for one phase
        assert "describe the run" not in warning
    # with noise of its own, in closed form: mu**2 = 4/1 + 3/4
    run = risk.from_opacus([(1.0, 0.01, 400), (2.0, 0.01, 300)])
    most = privacy.epsilon(DPSGD(1.0 / math.sqrt(4.75)), 1e-5).upper
    assert f"at most {number(most, 'up')}, the cost of 7 " in risk.assess(run).warnings[0]
    run = risk.from_opacus([(1.1, 1.0, 5), (1.1, 1e-5, 10)], dataset_size=1000)
    assert any("0.01 records on average" in text for text in risk.assess(run).warnings)


def test_noise_too_small_to_be_composed_is_warned_of():
    run = risk.training_run(noise_multiplier=1e-3, sampling_rate=0.01, steps=100)
    report = risk.assess(run)
    assert report["epsilon"].upper > 50 * report["epsilon"].lower
    assert any("below 1/35" in text and "far apart" in text for text in report.warnings)
    for more in ({"noise_multiplier": 1 / 34}, {"sampling_rate": 1.0}, {"steps": 1}):
        run = risk.training_run(
            **{"noise_multiplier": 1e-3, "sampling_rate": 0.01, "steps": 100, **more}
        )
        assert not any("below 1/35" in text for text in warnings_of(run))


def test_warnings_come_first_everywhere(report):
    assert str(report).startswith("Warning: ") and repr(report).startswith("<Report: gaussian")
    assert report._repr_html_().index("Warning") < 100
    assert report.as_dict()["warnings"] == list(report.warnings)


# Judgements --------------------------------------------------------------------------------------


def test_the_numbers_in_the_sentences_are_the_entries(report):
    ten, million = (report[f"rero[prior_size={n}]"].upper for n in (10, 1_000_000))
    power = report["power[false_positive_rate=0.01]"].upper
    matching = judged(report, "matching").text
    assert f"at most {chance(ten)} " in matching and f"at most {chance(million)} " in matching
    membership = judged(report, "membership").text
    assert f"at most {chance(power)} of the members" in membership
    assert f"at most {number(report['epsilon'].upper, 'up')} at delta" in membership
    two = risk.assess(RUN, None, risk.questions(prior_sizes=(2,)))["rero[prior_size=2]"].upper
    assert f"right at most {chance(two)} of the time" in judged(report, "attribute").text
    assert f"{report['psnr'].value:.1f} dB" in judged(report, "picture").text
    assert {j.key for j in report.judgements} == {
        "membership", "matching", "people", "attribute", "picture", "any_attack", "final_model",
        "anonymity", "halving",
    }  # fmt: skip
    for judgement in report.judgements:
        assert judgement.text.endswith((".", ")")) and judgement.question.endswith("?")
        assert set(judgement.references) <= set(risk.REFERENCES)
        assert set(judgement.entries) <= set(risk.KINDS)


def test_mu_is_named_only_where_it_bounds_the_whole_curve(report):
    full_batch = judged(risk.assess(full(noise_multiplier=4.0, steps=4)), "membership")
    assert "mu = 0.5 " in full_batch.text
    # of a sub-sampled run no useful one does: at a rate of 1e-300 it is that of the full batch
    assert "mu = " not in judged(report, "membership").text


def test_what_halves_the_risk_halves_it(report):
    text = judged(report, "halving").text
    sigma = float(re.search(r"multiplier of ([0-9.]+) instead", text)[1])
    steps = int(re.search(r"Or ([0-9,]+) steps", text)[1].replace(",", ""))
    gain = report["rero[prior_size=10]"].upper - 0.1
    for run in (replace(RUN, noise_multiplier=sigma), replace(RUN, steps=steps)):
        halved = risk.assess(run)["rero[prior_size=10]"].upper - 0.1
        assert 0.45 * gain < halved <= 0.5001 * gain


@pytest.mark.parametrize(
    ("sigma", "expected"),
    [
        (100.0, {"membership": "strong protection", "matching": "hardly better than guessing",
                 "attribute": "hardly", "anonymity": "speaks for it", "halving": "nothing needed"}),
        (0.01, {"membership": "no protection", "matching": "can be named", "anonymity": "no",
                "attribute": "largely", "picture": "recognised"}),
    ],
)  # fmt: skip
def test_verdicts_follow_the_noise(sigma, expected):
    report = risk.assess(full(noise_multiplier=sigma), PICTURE)
    assert {key: judged(report, key).verdict for key in expected} == expected


def test_averaging_a_noisy_picture_gives_the_psnr_that_is_said():
    rng, side, factor = np.random.default_rng(0), 256, 256 // PICTURE_SIDE
    noise = rng.standard_normal((side, side))
    small = noise.reshape(PICTURE_SIDE, factor, PICTURE_SIDE, factor).mean((1, 3))
    gained = 10.0 * math.log10(noise.var() / small.var())
    assert thumbnail_psnr(5.0, side * side) - 5.0 == pytest.approx(gained, abs=0.3)
    assert thumbnail_psnr(5.0, 100) == 5.0
    verdicts = [picture_words(psnr)[0] for psnr in (30.0, 15.0, 5.0, -5.0)]
    assert len(set(verdicts)) == 4 and verdicts[-1] == "not recognised"


def test_a_missing_setting_is_named_instead_of_judged():
    judgement = judged(risk.assess(full()), "picture")
    assert judgement.verdict == "not judged" and "data norm" in judgement.text


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.5, "50%"), (0.1234567, "12.4%"), (0.999, "99.9%"), (0.99999999, "99.999999%"),
     (1 - 1e-12, "100%"),
     (1e-4, "1 in 10,000"), (0.0, "0%"), (1e-300, "1 in 10^300")],
)  # fmt: skip
def test_chances_as_people_say_them(probability, text):
    assert chance(probability) == text


# Nothing is called more than it is ----------------------------------------------------------------


def test_no_row_is_called_exact_that_is_an_interval(report):
    for found in (report, risk.assess(full(noise_multiplier=0.3, sampling_rate=1e-7, steps=10**7))):
        for entry in found:
            if entry.ok and entry.direction.startswith("exact"):
                assert not describe_value(entry).startswith("between"), entry.key
    entry = report["epsilon"]
    assert entry.direction == "exact"


def test_one_row_is_not_answered_where_it_is_clipped():
    entry = risk.assess(full(max_grad_norm=1.0), risk.record(data_norm=9.2))["mse_single_row"]
    assert entry.status == "not applicable" and "9.2 exceeds the clipping norm 1" in entry.reason
    assert risk.assess(full(), risk.record(data_norm=0.9))["mse_single_row"].ok
    assert risk.assess(full())["mse_single_row"].missing == ("data_norm",)
    sample = risk.record(sample=[[0.5, 0.0], [3.0, 0.0]])
    assert not risk.assess(full(), sample)["mse_single_row"].ok


def test_what_is_always_true_is_one_line(report):
    kinds = {entry.kind for entry in report.nothing_useful}
    assert {"mutual_information", "rero_renyi", "mse_unbiased"} <= kinds
    assert "epsilon" not in kinds and "rero" not in kinds
    # ln 10 is the entropy of ten candidates
    assert report["mutual_information[prior_size=10]"].value == pytest.approx(math.log(10))
    text = nothing_useful(report)
    assert text.startswith("Nothing useful") and "{" not in "".join(rest(report))
    table = str(report).partition("Was this record")[2].partition("- Nothing useful")[0]
    assert "2.31 nats" not in table and "e-1263" not in table
    entry = replace(report["rero[prior_size=10]"], lower=0.0, upper=1.0, direction="enclosed")
    assert says_nothing(entry, PICTURE)


JARGON = (
    "How far apart can", "E MSE", "shrunk", "By what factor, in nats", "Earlier bound",
    "exact for one",
)  # fmt: skip


def test_words_that_nobody_understood_are_gone(report):
    for text in (str(report), report._repr_html_()):
        assert not [word for word in JARGON if word in text]


# Every width -------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [120, 80, 60, 40])
@pytest.mark.parametrize("details", [False, True])
def test_lines_fit_the_window(report, width, details):
    lines = plain(report, width=width, details=details).splitlines()
    assert max(map(len, lines)) <= width
    names = ("what", "one.yaml", "another.yaml")
    table = columns(names, [("Success with 1,000,000 candidates", "at most 0.1", "0.2")], width)
    assert max(map(len, table)) <= width


@pytest.mark.parametrize("columns", ["80", "60", "40"])
def test_the_command_fits_the_window(columns):
    arguments = ["risk", "-s", "1", "-q", "1", "-t", "1", "--image", "8x8", "--data-norm", "1"]
    shown = CliRunner(env={"COLUMNS": columns}).invoke(app, arguments).output
    assert max(map(len, shown.splitlines())) <= int(columns)


# What goes wrong ---------------------------------------------------------------------------------


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["risk", "-s", "1", *arguments])


def test_missing_rate_or_steps_are_asked_for():
    for arguments, question in (
        ((), "what share of the records does a step take?"),
        (("-q", "0.1"), "how many steps, or epochs, did training take?"),
        (("--batch-size", "256", "--dataset-size", "60000"), "how many steps"),
    ):
        result = invoke(*arguments)
        assert result.exit_code == 2 and question in result.stderr


def test_one_number_is_no_image():
    result = invoke("-q", "1", "-t", "1", "--image", "28")
    assert result.exit_code == 2 and "224x224x3" in result.stderr


def test_a_numpy_number_is_shown_as_a_number():
    with pytest.raises(risk.SettingError) as error:
        risk.training_run(noise_multiplier=np.float64(-1.0))
    assert "got -1.0" in str(error.value) and "np." not in str(error.value)
    with pytest.raises(ValueError, match=r"got 1\.5$"):
        bounds.bayes_success(1.0, np.float64(1.5))


def test_out_is_checked_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(risk, "assess", lambda *_: pytest.fail("computed"))
    for out in (tmp_path, tmp_path / "missing" / "report.html"):
        result = invoke("-q", "1", "-t", "1", "--out", str(out))
        assert result.exit_code == 2 and str(out) in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_report(tmp_path, monkeypatch):
    out = tmp_path / "report.txt"
    out.write_text("old")

    def full_disk(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(console.os, "fsync", full_disk)
    result = invoke("-q", "1", "-t", "1", "--out", str(out))
    assert result.exit_code == 2 and "No space left" in result.stderr
    assert out.read_text() == "old" and list(tmp_path.iterdir()) == [out]


def test_a_report_keeps_its_file_s_mode_and_a_link(tmp_path):
    out, link = tmp_path / "report.txt", tmp_path / "link.txt"
    out.write_text("old")
    out.chmod(0o640)
    link.symlink_to(out)
    console.write_whole(link, "new")
    assert link.is_symlink() and out.read_text() == "new" and out.stat().st_mode & 0o777 == 0o640


def test_json_says_its_version_and_everything_else(report):
    plain_report = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert plain_report["schema_version"] == risk.SCHEMA_VERSION
    assert {j["key"] for j in plain_report["judgements"]} == {j.key for j in report.judgements}
    keys = {entry["key"] for entry in plain_report["entries"]}
    assert set(plain_report["nothing_useful"]) <= keys
