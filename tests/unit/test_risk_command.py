"""`reconrisk risk`: what it prints is what the library says, in every format, and nothing more."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from importlib import resources

import dp_accounting
import jsonschema
import matplotlib
import numpy as np
import pytest
from bs4 import BeautifulSoup
from dp_accounting import dp_event as events
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from companion.study import registry
from reconrisk import bounds, privacy, risk
from reconrisk.cli import _risk_html
from reconrisk.cli._risk_file import EXAMPLE
from reconrisk.cli._risk_inputs import read_inputs
from reconrisk.cli.app import app
from reconrisk.risk._numbers import describe_value, number
from reconrisk.risk._report import markdown, rest, sections
from reconrisk.risk._text import row

USUAL = ["--sigma", "1.1", "-q", "0.01", "-t", "300", "--image", "28x28x1", "--data-norm", "9.2"]
#: one full-batch step, as flags and in a file
ONE, FULL = ["-s", "1", "-q", "1", "-t", "1"], "sampling_rate: 1\nsteps: 1\n"
RUN = risk.training_run(noise_multiplier=1.1, sampling_rate=0.01, steps=300)
RECORD = risk.record(dimension=784, data_norm=9.2, picture=True)


@pytest.fixture(scope="module")
def report():
    return risk.assess(RUN, replace(RECORD, data_range=1.0))


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Run the command in an empty folder; returns its output, fails if it does not end well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def invoke(*arguments: str, status: int = 0) -> str:
        result = CliRunner().invoke(app, ["risk", *arguments])
        assert result.exit_code == status, (result.output, result.exception)
        return result.output

    return invoke


def schema() -> dict:
    return json.loads((resources.files("reconrisk.risk") / "report.schema.json").read_text())


# Numbers -----------------------------------------------------------------------------------------


@given(st.floats(1e-280, 1e300), st.booleans())
def test_numbers_are_rounded_outwards(value, negative):
    value = -value if negative else value
    low, near, high = (float(number(value, way)) for way in ("down", "nearest", "up"))
    assert low <= value * (1 + 1e-15 * (-1 if negative else 1)) and low <= near <= high
    assert value <= high and abs(near - value) <= 0.0051 * abs(value)


@given(st.floats(-1e9, -700.0))
def test_numbers_below_floats_are_rounded_outwards(log):
    def log_of(text: str) -> float:
        digits, _, power = text.partition("e")
        return math.log(float(digits)) + int(power) * math.log(10.0)

    low, high = (log_of(number(0.0, way, log)) for way in ("down", "up"))
    slack = 4e-16 * abs(log)
    assert low <= log + slack and high >= log - slack and high - low < 0.03 + slack


@pytest.mark.parametrize(
    ("value", "way", "text"),
    [
        (0.0, "up", "0"),
        (1.0, "up", "1"),
        (1e-5, "up", "1e-05"),
        (0.19421253, "up", "0.195"),
        (0.19421253, "down", "0.194"),
        (0.99999, "down", "0.99999"),
        (1 - 1e-12, "down", "0.99999999"),
        (123456.0, "nearest", "123000"),
        (-8.494, "up", "-8.49"),
    ],
)
def test_numbers_as_people_write_them(value, way, text):
    assert number(value, way) == text


def test_what_says_nothing_is_said_to(report):
    entry = report["rero[prior_size=10]"]
    assert describe_value(entry) == f"at most {number(entry.upper, 'up')}"
    assert describe_value(replace(entry, upper=1.0, log_upper=0.0)) == "at most 1: says nothing"
    floor = replace(entry, direction="lower bound on error", unit="dB", lower=0.0, log_lower=None)
    assert describe_value(floor) == "at least 0: says nothing"
    wide = replace(entry, direction="exact", lower=0.1, upper=0.2, log_lower=None, log_upper=None)
    assert describe_value(wide) == "between 0.1 and 0.2"
    assert describe_value(replace(wide, status="out of range")) == "out of range"


# Formats -----------------------------------------------------------------------------------------


def test_the_terminal_shows_every_answer(call, report):
    shown = call(*USUAL, "--data-range", "1")
    words = " ".join(shown.split())
    tabled = [entry for _, _, own in sections(report) for entry in own]
    for entry in tabled:
        assert describe_value(entry) in words, entry.key
    for text in [*report.warnings, *rest(report), *(j.text for j in report.judgements)]:
        assert text in words
    assert "Not answered without parameters" in words and "nan" not in words


def test_json_is_the_library_s_report_and_fits_its_schema(call, report):
    shown = json.loads(call(*USUAL, "--data-range", "1", "--format", "json"))
    assert shown == json.loads(json.dumps(report.as_dict()))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(shown, schema())


@pytest.mark.parametrize(
    "run",
    [
        risk.training_run(concentration=20.0, parameters=50, sampling_rate=1.0, steps=1),
        risk.training_run(noise_multiplier=1e-3, steps=10, parameters=1000, batch_size=5,
                          dataset_size=50),
        risk.from_opacus([(1.0, 1.0, 3), (2.0, 1.0, 4)]),
    ],
)  # fmt: skip
def test_other_reports_fit_the_schema_too(run):
    model = risk.two_layer_model(width=100)
    sample = risk.record(sample=[[0.0, 3.0], [4.0, 3.0]])
    jsonschema.validate(risk.assess(run, sample, None, model).as_dict(), schema())


@pytest.mark.parametrize("change", ["schema_version", "run", "entries"])
def test_the_schema_refuses_what_is_no_report(report, change):
    broken = report.as_dict()
    broken[change] = {"schema_version": 2, "run": {}, "entries": [{"key": "x"}]}[change]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema())


def test_the_book_describes_every_field_of_the_schema():
    page = (registry.project_root() / "book/api/risk.md").read_text()

    def names(part: dict) -> set[str]:
        inner = part.get("properties", {})
        below = [*inner.values(), part.get("items", {})]
        return set(inner).union(*(names(p) for p in below if p))

    missing = {name for name in names(schema()) if f"`{name}`" not in page}
    assert not missing


def test_markdown_holds_the_answers_in_tables(call, report):
    page = call(*USUAL, "--data-range", "1", "--format", "markdown")
    for _, _, own in sections(report):
        for entry in own:
            assert " | ".join(row(entry)[1:3]) in page, entry.key
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) in (3, 5) for row in rows)


@pytest.fixture(scope="module")
def card(report):
    return _risk_html.card([replace(report, notes=("<b>|x|</b>", *report.notes))], [noted()])


def noted():
    """A setting whose note a page must not take for its own."""
    flags = {"noise_multiplier": 1.1, "sampling_rate": 1, "steps": 1}
    return replace(read_inputs(None, flags, {}), notes=("<b>|x|</b>",))


def test_the_card_needs_nothing_from_elsewhere(card):
    page = BeautifulSoup(card, "html.parser")
    assert not page.find_all(["script", "link", "iframe", "object", "base"])
    assert all(tag["src"].startswith("data:image/png;base64,") for tag in page.find_all("img"))
    assert not re.search(r"@import|url\((?!#)", card)
    links = {v for tag in page.find_all(True) for k, v in tag.attrs.items() if k.endswith("href")}
    # what a reader may follow is no request
    cited = {reference.url for reference in risk.REFERENCES.values()}
    assert all(link.startswith("#") or link in cited for link in links)


def test_the_card_reads_without_its_pictures(card, report):
    page = BeautifulSoup(card, "html.parser")
    assert page.html["lang"] == "en" and page.title.string
    levels = [int(tag.name[1]) for tag in page.find_all(re.compile("^h[1-6]$"))]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))
    ids = [tag["id"] for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids))
    drawings = page.find_all("svg")
    assert len(drawings) == 3
    for drawing in drawings:
        assert drawing["role"] == "img" and len(drawing["aria-label"].split()) >= 6
        assert drawing["aria-label"].endswith(".")
    text = page.get_text(" ", strip=True)
    for _, _, own in sections(report):
        for entry in own:
            assert entry.question in text and entry.tightness in text, entry.key
    assert len(page.select(".summary article")) == len(report.judgements)
    shown = page.select(".examples img")
    assert len(shown) == 5 and all(picture["alt"].endswith(".") for picture in shown)


def test_the_card_s_colours_can_be_read(card):
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    themes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in card.split(":root")[1:]
    ]
    assert len(themes) == 3  # light, dark, print
    for theme in themes:
        for text in ("text", "muted", "accent", "blue", "orange", "green", "purple"):
            for ground in ("back", "card"):
                pair = sorted((luminance(theme[text]), luminance(theme[ground])))
                ratio = (pair[1] + 0.05) / (pair[0] + 0.05)
                assert ratio >= (4.5 if text in ("text", "muted", "accent") else 3.0), (text, theme)


def test_pictures_take_the_page_s_colours(card):
    drawings = "".join(str(tag) for tag in BeautifulSoup(card, "html.parser").find_all("svg"))
    assert not re.search("#[0-9a-fA-F]{6}", re.sub("url[(]#[^)]*[)]", "", drawings))


def test_what_a_reader_wrote_is_shown_as_text(card, report):
    assert "&lt;b&gt;|x|&lt;/b&gt;" in card
    assert "\\<b\\>\\|x\\|\\</b\\>" in markdown(replace(report, notes=("<b>|x|</b>",)))


# Settings ----------------------------------------------------------------------------------------


def test_flags_come_before_the_file_and_replace_what_said_the_same(call, tmp_path):
    (tmp_path / "run.yaml").write_text(EXAMPLE)
    flags = {"steps": 7, "sampling_rate": 0.5, "dimension": 5}
    made = read_inputs(tmp_path / "run.yaml", flags, {})
    assert (made.run.steps, made.run.sampling_rate, made.record.dimension) == (7, 0.5, 5)
    assert made.run.noise_multiplier == 1.1 and made.record.data_norm == 9.2
    vmf = read_inputs(tmp_path / "run.yaml", {"concentration": 3.0, "parameters": 9}, {})
    assert vmf.run.mechanism == "vmf" and vmf.run.noise_multiplier is None


def test_flags_that_a_phase_would_hide_are_refused(tmp_path):
    file = tmp_path / "phases.yaml"
    both = "batch_size: 256\ndataset_size: 60000\nphases:\n"
    own = "  - {noise_multiplier: 1.3, epochs: 10}\n  - {noise_multiplier: 0.9, epochs: 5}\n"
    file.write_text(both + own)
    for name, value, its in (
        ("noise_multiplier", 5, "noise_multiplier"),
        ("steps", 10, "epochs"),
        ("epochs", 3, "epochs"),
    ):
        why = rf"{name} must be left out beside the phases .*\[0\] gives its own {its}; got {value}"
        with pytest.raises(ValueError, match=why):
            read_inputs(file, {name: value}, {})
    run = read_inputs(file, {"sampling_rate": 0.5}, {}).run
    assert [p.sampling_rate for p in run.phases] == [0.5, 0.5]
    # what the phases leave out a flag may say
    file.write_text(both + "  - {epochs: 10}\n  - {epochs: 5, batch_size: 512}\n")
    run = read_inputs(file, {"noise_multiplier": 5}, {}).run
    assert [p.noise_multiplier for p in run.phases] == [5.0, 5.0]
    with pytest.raises(ValueError, match=r"sampling_rate .*phases\[1\] gives its own batch_size"):
        read_inputs(file, {"sampling_rate": 0.5}, {})


def test_names_of_flags_lead_to_fields(call, tmp_path):
    file = tmp_path / "run.yaml"
    for name, field in (
        ("sigma", "noise_multiplier"),
        ("log_prior_success", "log_priors"),
        ("prior_size", "prior_sizes"),
    ):
        file.write_text(f"{name}: 1.1\n")
        with pytest.raises(ValueError, match=rf"'{name}' \(did you mean {field}\?\)"):
            read_inputs(file, {}, {})
    with pytest.raises(OSError, match=r"nofile\.json cannot be read: there is no such file$"):
        read_inputs(tmp_path / "nofile.json", {}, {})


def test_groups_are_no_larger_than_the_data():
    flags = {"noise_multiplier": 9, "batch_size": 5, "dataset_size": 10, "steps": 2}
    assert read_inputs(None, {**flags, "group_size": 10}, {}).run.group_size == 10
    with pytest.raises(ValueError, match="group_size must be at most dataset_size, 10; got 11"):
        read_inputs(None, {**flags, "group_size": 11}, {})
    settings = {"noise_multiplier": 9, "batch_size": 5, "steps": 2, "group_size": 11}
    with pytest.raises(ValueError, match="group_size must be at most dataset_size, 10; got 11"):
        risk.training_run(**settings, dataset_size=10)
    with pytest.raises(ValueError, match="group_size must be at most dataset_size, 10; got 11"):
        risk.from_guarantee({"mu": 1.0}, group_size=11, dataset_size=10)


def test_correlation_takes_steps_and_period_from_epochs(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(EXAMPLE.replace("# correlation:", "correlation:"))
    run = read_inputs(file, {}, {}).run
    # 60,000 records make 234 whole batches of 256, and the epochs are 15
    told = risk.correlated_run(
        "square-root", noise_multiplier=1.1, steps=15 * 234, bands=8, period=234
    )
    assert run.noise_multiplier == told.noise_multiplier
    assert "3,510 steps" in run.notes[0] and "every 234 steps" in run.notes[0]
    one_epoch = read_inputs(file, {"steps": 200}, {}).run
    assert "at most one step of the whole run" in one_epoch.notes[0]
    flags = {"noise_multiplier": 1, "correlation": "encoder=tree, period=235"}
    size = {"batch_size": 256, "dataset_size": 60_000}
    assert "every 235 steps" in read_inputs(None, {**flags, **size, "epochs": 2}, {}).run.notes[0]
    assert "every 235 steps" in read_inputs(None, {**flags, "epochs": 2}, {}).run.notes[0]
    for more, why in (
        ({}, "steps must be given with correlation"),
        ({**size, "epochs": 2, "steps": 1000}, "steps must be epochs times period = 470"),
        ({"epochs": 2, "correlation": "encoder=tree"}, "correlation period must be given"),
        ({"steps": 9, "batch_size": 256}, "dataset_size must be"),
        ({**size, "steps": 9, "batch_size": 70_000}, "batch_size must be at most dataset_size"),
        (
            {**size, "steps": 999, "correlation": "encoder=tree, period=100"},
            "correlation period must be dataset_size/batch_size = 234.375",
        ),
    ):
        with pytest.raises(ValueError, match=why):
            read_inputs(None, {**flags, **more}, {})


def test_a_report_s_json_holds_correlated_noise_as_given():
    # a tree over 3,516 leaves has 12 levels above the root: sensitivity sqrt(12)
    run = risk.correlated_run("tree", noise_multiplier=4.0, steps=3516)
    plain = risk.assess(run).as_dict()
    jsonschema.validate(plain, schema())
    held = plain["run"]["correlation"]
    assert held["noise_multiplier"] == pytest.approx(4, rel=1e-14)
    assert held["sensitivity"] == pytest.approx(12**0.5, rel=1e-12)
    assert plain["run"]["noise_multiplier"] == pytest.approx(4 / 12**0.5, rel=1e-12)
    found = risk.least_noise("epsilon", 1.0, run)
    assert found.run.as_dict()["correlation"]["noise_multiplier"] == found.noise_multiplier
    assert risk.assess(RUN).as_dict()["run"]["correlation"] is None


def test_a_history_s_batches_are_described_by_flags(tmp_path):
    history = tmp_path / "history.json"
    history.write_text(json.dumps([[1.1, 1 / 235, 3525]]))
    flags = {"opacus_history": str(history), "sampler": "shuffle"}
    run = read_inputs(None, flags, {}).run
    assert run.sampler == "shuffle" and run.releases == risk.training_run(
        noise_multiplier=1.1, sampling_rate=1 / 235, steps=3525, sampler="shuffle"
    ).releases  # fmt: skip
    file = tmp_path / "run.yaml"
    file.write_text("sampler: shuffle\nnoise_multiplier: 3\n")
    assert read_inputs(file, {"opacus_history": str(history)}, {}).run.sampler == "shuffle"
    flags = {"opacus_history": str(history), "batch_size": 256}
    assert read_inputs(None, flags, {}).run.batch_size == 256
    assert read_inputs(None, {**flags, "dataset_size": 60_000}, {}).run.dataset_size == 60_000
    with pytest.raises(ValueError, match="batch_size must be dataset_size times .*255.3.*got 300"):
        read_inputs(None, {**flags, "dataset_size": 60_000, "batch_size": 300}, {})
    history.write_text("[[1.1, 0.1, 5], [1.1, 0.2, 5]]")
    with pytest.raises(ValueError, match="sampler must be 'poisson' for several phases"):
        read_inputs(None, {"opacus_history": str(history), "sampler": "shuffle"}, {})
    with pytest.raises(ValueError, match="batch_size must be left out beside a history of several"):
        read_inputs(None, flags, {})


def test_the_example_is_a_file_of_settings(call, tmp_path):
    (tmp_path / "run.yaml").write_text(call("--example"))
    made = read_inputs(tmp_path / "run.yaml", {}, {})
    assert (made.run.steps, made.record.dimension, made.run.delta) == (3525, 784, 1e-5)


def test_paths_in_a_file_are_told_from_the_file(tmp_path, monkeypatch):
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "history.json").write_text("[[1.5, 0.1, 4]]")
    (folder / "run.yaml").write_text("opacus_history: history.json\nmax_grad_norm: 2\n")
    monkeypatch.chdir(tmp_path)
    run = read_inputs(folder / "run.yaml", {}, {}).run
    assert (run.noise_multiplier, run.steps, run.max_grad_norm) == (1.5, 4, 2.0)


def test_norms_are_measured_on_a_sample(call, tmp_path):
    images = np.zeros((4, 3, 3), dtype=np.uint8)
    images[:, 0, 0] = 255, 51, 102, 204
    np.savez(tmp_path / "own.npz", images=images)
    shown = json.loads(call("-s", "1", "-q", "1", "-t", "1", "--data", "own.npz", "-f", "json"))
    assert shown["record"]["dimension"] == 9 and shown["record"]["data_range"] == 1.0
    assert shown["record"]["norms"] == pytest.approx([0.2, 0.6, 1.0])
    assert shown["record"]["data_norm"] == pytest.approx(0.2)
    assert "measured on the file own.npz" in shown["notes"][0] and "4 images" in shown["notes"][0]


def test_norms_are_measured_on_a_table(call, tmp_path):
    (tmp_path / "t.csv").write_text("age,income\n3,4\n\n6,8\n", encoding="utf-8")
    (tmp_path / "t.tsv").write_text("3\t4\n6\t8\n", encoding="utf-8")
    np.save(tmp_path / "t.npy", [[3, 4], [6, 8]])
    for name in ("t.csv", "t.tsv", "t.npy"):
        found = json.loads(call(*ONE, "--data", name, "--format", "json"))["record"]
        assert (found["dimension"], found["data_norm"], found["data_range"]) == (2, 5.0, 5.0)
        assert found["picture"] is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3,NA\n", "line 3, column 'b': must be a finite number"),
        ("1,2\n3,inf\n", "line 2, column 2: must be a finite number"),
        ("1,2\n3\n", "line 2: must have 2 cells; got 1"),
        ("5,NA\n1,2\n", "line 1, column 2: must be a finite number"),
        ("a,b\n", "must hold a line of numbers"),
        ("", "must hold a line of numbers"),
        ("1,2\n0,0\n", "sample must be of no norm zero; that of record 1"),
    ],
)
def test_a_table_that_is_not_of_numbers_is_refused_where_it_is_not(call, tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    assert said in " ".join(call(*ONE, "--data", "t.csv", status=2).split())


def test_a_black_picture_is_named(call, tmp_path):
    for grey in (90, 0):
        Image.new("L", (28, 28), grey).save(tmp_path / f"{grey}.png")
    assert f"{tmp_path.name}/0.png is black" in call(*ONE, "--data", str(tmp_path), status=2)


def test_settings_side_by_side(call, tmp_path):
    (tmp_path / "a.yaml").write_text("noise_multiplier: 1\nprior_sizes: [10]\n" + FULL)
    (tmp_path / "b.yaml").write_text("noise_multiplier: 2\nprior_sizes: [10, 20]\n" + FULL)
    both = ["--config", "a.yaml", "--config", "b.yaml"]
    expected = [f"at most {number(bounds.rero_gaussian(s, 0.1), 'up')}" for s in (1.0, 2.0)]
    lines = [" ".join(line.split()) for line in call(*both).splitlines()]
    assert f"Success with 10 candidates {expected[0]} {expected[1]}" in lines
    assert any(line.startswith("Success with 20 candidates not asked at most") for line in lines)
    assert f"| Success with 10 candidates | {expected[0]} | {expected[1]} |" in call(
        *both, "-f", "markdown"
    )
    page = BeautifulSoup(call(*both, "-f", "html"), "html.parser")
    row = next(r for r in page.find_all("tr") if "Success with 10" in r.get_text())
    assert [c.get_text() for c in row.find_all(["th", "td"])][1:] == expected
    reports = json.loads(call(*both, "-f", "json"))
    assert [r["run"]["noise_multiplier"] for r in reports] == [1.0, 2.0]
    for one in reports:
        jsonschema.validate(one, schema())


def test_output_goes_to_a_file(call, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")  # as wide as a file
    for form in ("terminal", "markdown", "json", "html"):
        shown = call(*ONE, "-f", form, "--out", f"card.{form}")
        assert shown == f"written to card.{form}\n"
        written = (tmp_path / f"card.{form}").read_text()
        if form != "html":
            assert written == call(*ONE, "-f", form)


# The least noise ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "key", "limit", "falls"),
    [
        (["epsilon=2"], "epsilon", 2.0, False),
        (["success=0.2", "--at", "25"], "rero[prior_size=25]", 0.2, False),
        (["success=0.2", "--prior-size", "10"], "rero[prior_size=10]", 0.2, False),
        (["mse=0.5"], "mse", 0.5, True),
        (["psnr_tail=0.01"], "psnr_tail[psnr=20.0]", 0.01, False),
    ],
)
def test_the_least_noise_meets_its_target_and_less_does_not(call, target, key, limit, falls):
    arguments = ["-q", "0.1", "-t", "10", *USUAL[6:], "--data-range", "1", "--target", *target]
    shown = json.loads(call(*arguments, "-f", "json"))
    run = risk.training_run(
        noise_multiplier=shown["run"]["noise_multiplier"], sampling_rate=0.1, steps=10
    )
    asked = risk.questions(prior_sizes=shown["questions"]["prior_sizes"])
    known = replace(RECORD, data_range=1.0)

    def value(factor: float) -> float:
        other = replace(run, noise_multiplier=run.noise_multiplier * factor)
        return risk.assess(other, known, asked)[key].value

    assert value(1.0) >= limit if falls else value(1.0) <= limit
    assert value(0.995) < limit if falls else value(0.995) > limit
    assert shown["notes"][0].startswith(f"Noise multiplier {run.noise_multiplier:g}: the least")
    assert len(f"{run.noise_multiplier!r}".replace(".", "").lstrip("0")) <= 6


@pytest.mark.parametrize("rate", [1, 0.1])
def test_the_least_noise_of_phases_says_whose_it_is(call, tmp_path, rate):
    phase = f"  - {{noise_multiplier: %g, sampling_rate: {rate}, steps: %d}}\n"
    phases = [(8.0, 10), (4.0, 5)]
    file = tmp_path / "phases.yaml"
    file.write_text("phases:\n" + "".join(phase % (sigma, steps) for sigma, steps in phases))
    notes = json.loads(call("--config", str(file), "--target", "epsilon=1", "-f", "json"))["notes"]
    if rate == 1:
        factor = float(re.search("do as well with ([0-9.]+) times their noise", notes[0])[1])
    else:
        assert "that of the phase with the least" in notes[0]
        factor = float(re.search("multiplier ([0-9.]+):", notes[0])[1]) / 4.0
    # scaled as it says, the phases meet the target, and no more
    for scale, met in ((factor, True), (0.995 * factor, False)):
        scaled = [
            {"noise_multiplier": sigma * scale, "sampling_rate": rate, "steps": steps}
            for sigma, steps in phases
        ]
        entry = risk.assess(risk.training_run(phases=scaled))["epsilon"]
        assert (entry.value <= 1.0) is met
    assert notes[1].startswith("As given: 2 phases: sigma 8")


def test_the_largest_concentration_is_rounded_down(call):
    arguments = [
        "--mechanism",
        "vmf",
        "--parameters",
        "50",
        "-q",
        "1",
        "-t",
        "1",
        "--target",
        "success=0.3",
        "--at",
        "10",
    ]
    run = json.loads(call(*arguments, "-f", "json"))["run"]
    entry = risk.assess(
        risk.training_run(
            concentration=run["concentration"], parameters=50, sampling_rate=1.0, steps=1
        )
    )["rero[prior_size=10]"]
    assert 0.29 < entry.value <= 0.3


# Accountants -------------------------------------------------------------------------------------


def epsilon_of(phases, delta=1e-5) -> float:
    """The epsilon of phases by another library, from above."""
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    for sigma, q, steps in phases:
        step = events.PoissonSampledDpEvent(q, events.GaussianDpEvent(sigma))
        accountant.compose(step, steps)
    return accountant.get_epsilon(delta)


def test_phases_at_full_batch_are_one_run_exactly():
    phases = [(1.0, 1.0, 3), (2.5, 1.0, 7), (1.7, 1.0, 1)]
    run = risk.from_opacus(phases)
    mu = math.sqrt(math.fsum(t / s**2 for s, _, t in phases))
    assert math.sqrt(run.steps) / run.noise_multiplier == pytest.approx(mu, rel=1e-14)
    assert run.steps == 11 and run.phases == ()
    assert privacy.epsilon(run.dpsgd, 1e-5).lower == pytest.approx(epsilon_of(phases), rel=1e-3)


@pytest.mark.parametrize(
    "phases",
    [
        [(1.0, 0.02, 100), (1.5, 0.02, 200)],
        [(1.0, 0.02, 100), (1.0, 0.01, 100)],
        [(1.1, 1.0, 5), (1.1, 0.01, 1000)],
    ],
)
def test_other_phases_compose_by_their_own_losses(phases):
    run = risk.from_opacus(phases)
    assert run.steps == sum(t for _, _, t in phases) and len(run.phases) == len(phases)
    entry = risk.assess(run)["epsilon"]
    assert entry.lower <= epsilon_of(phases) and entry.upper >= epsilon_of(phases) * (1 - 2e-3)
    assert entry.upper <= epsilon_of(phases) * (1 + 1e-3)


def test_equal_phases_are_one_run_without_a_note():
    run = risk.from_opacus([(1.0, 0.02, 100), (1.0, 0.02, 50)])
    assert (run.noise_multiplier, run.sampling_rate, run.steps) == (1.0, 0.02, 150)
    assert run.phases == () and not any("phases" in note for note in run.notes)


def test_opacus_accountants_are_read():
    from opacus.accountants import PRVAccountant, RDPAccountant

    for accountant in (PRVAccountant(), RDPAccountant()):
        for _ in range(3):
            accountant.step(noise_multiplier=1.3, sample_rate=0.01)

        class Engine:
            pass

        Engine.accountant = accountant
        for source in (accountant, accountant.state_dict(), accountant.history, Engine()):
            run = risk.from_opacus(source, max_grad_norm=2.0, delta=1e-6)
            assert (run.noise_multiplier, run.sampling_rate, run.steps) == (1.3, 0.01, 3)
            assert (run.max_grad_norm, run.delta) == (2.0, 1e-6)
    with pytest.raises(TypeError, match="reads steps from the history"):
        risk.from_opacus([(1.0, 1.0, 1)], steps=3)
    with pytest.raises(TypeError, match="reads phases from the history"):
        risk.from_opacus([(1.0, 1.0, 1)], phases=[])
    with pytest.raises(TypeError, match="takes a PrivacyEngine"):
        risk.from_opacus(3)


def test_a_history_of_other_batches_has_one_phase():
    for phases in ([(1.1, 1.0, 5), (1.1, 0.01, 1000)], [(5.0, 0.01, 1000), (1.1, 0.01, 10)]):
        with pytest.raises(risk.SettingError, match="sampler must be 'poisson' for several phases"):
            risk.from_opacus(phases, sampler="shuffle")
    run = risk.from_opacus([(1.1, 0.1, 20), (1.1, 0.1, 10)], sampler="fixed", notes=["mine"])
    assert run.releases == privacy.SampledRun(1.1, 0.1, 30, "fixed")
    assert run.notes[1].startswith("recorded by Opacus") and run.notes[2] == "mine"
    # full batches are the same whatever draws them
    whole = [(5.0, 1.0, 10), (1.1, 1.0, 10)]
    shuffled, plain = (risk.from_opacus(whole, sampler=s) for s in ("shuffle", "poisson"))
    assert risk.assess(shuffled)["epsilon"].upper == risk.assess(plain)["epsilon"].upper


def nested(sigma, q, steps):
    step = events.PoissonSampledDpEvent(q, events.GaussianDpEvent(sigma))
    return events.SelfComposedDpEvent(step, steps)


def command(arguments: list[str], encoding: str = "utf-8", closing: str = "") -> tuple:
    """Run the command in a shell, as a redirection meets it; return status, output and errors."""
    line = shlex.join([sys.executable, "-m", "reconrisk.cli", "risk", *arguments])
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding}
    found = subprocess.run(f"{line} {closing}", shell=True, capture_output=True, env=environment)
    return found.returncode, found.stdout, found.stderr.decode()


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_output_that_is_not_utf8_is_written_all_the_same(encoding, form):
    status, out, error = command([*ONE, "--format", form], encoding)
    assert status == 0 and "Traceback" not in error
    # a file is in the encoding that it declares, plain text in the one of its reader
    text = out.decode(encoding if form == "terminal" else "utf-8")
    assert "In plain words" in text
    assert form != "terminal" or ("-----" in text and "?????" not in text)


def test_figures_are_the_same_whatever_the_host_s_style(report):
    plain = _html_of(report)
    with matplotlib.rc_context({"text.usetex": True, "font.size": 30, "figure.figsize": (3, 2)}):
        assert _html_of(report) == plain


def _html_of(report) -> str:
    return _risk_html.card([report], [noted()])


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (events.GaussianDpEvent(2.0), (2.0, 1.0, 1)),
        (nested(1.1, 0.01, 1000), (1.1, 0.01, 1000)),
        (events.SelfComposedDpEvent(nested(1.1, 0.01, 10**6), 1000), (1.1, 0.01, 10**9)),
        (events.ComposedDpEvent([nested(1.1, 0.01, 3), events.NoOpDpEvent(), nested(1.1, 0.01, 4)]),
         (1.1, 0.01, 7)),
        (events.PoissonSampledDpEvent(0.5, events.PoissonSampledDpEvent(
            0.1, events.GaussianDpEvent(1.0))), (1.0, 0.05, 1)),
        (events.PoissonSampledDpEvent(0.5, events.SelfComposedDpEvent(
            events.GaussianDpEvent(2.0), 4)), (1.0, 0.5, 1)),
    ],
)  # fmt: skip
def test_events_are_read(event, expected):
    run = risk.from_dp_event(event)
    assert (run.noise_multiplier, run.sampling_rate, run.steps) == pytest.approx(expected)
    if run.steps < 10**6:
        accountant = PLDAccountant()
        try:
            accountant.compose(event)
        except dp_accounting.UnsupportedEventError:
            return  # the other library does not see that these are runs of DP-SGD
        ours = privacy.epsilon(run.dpsgd, 1e-5)
        assert ours.lower == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (3, "must be a DpEvent"),
        (events.NoOpDpEvent(), "it is empty"),
        (events.NonPrivateDpEvent(), "holds a NonPrivateDpEvent"),
        (events.SampledWithoutReplacementDpEvent(10, 2, events.LaplaceDpEvent(1.0)),
         "holds a SampledWithoutReplacementDpEvent"),
        (events.PoissonSampledDpEvent(0.5, events.RandomizedResponseDpEvent(0.5, 2)),
         "holds a PoissonSampledDpEvent"),
        (events.ComposedDpEvent([events.ZCDpEvent(0.1), events.LaplaceDpEvent(1.0)]),
         "must not compose a ZCDpEvent"),
        (events.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 3.0], [0.8, 0.1, 0.1]),
         "binomial probabilities"),
        (events.GaussianDpEvent(0.0), "noise_multiplier, must be in"),
        (events.SelfComposedDpEvent(events.GaussianDpEvent(1.0), -1), "steps, must be in"),
        (events.PoissonSampledDpEvent(0.5, nested(1.0, 0.5, 2)), "several sampled releases"),
        (events.PoissonSampledDpEvent(1.5, events.GaussianDpEvent(1.0)), "sample_rate, must be in"),
    ],
)  # fmt: skip
def test_other_events_are_refused(event, why):
    with pytest.raises((TypeError, ValueError), match=re.escape(why)):
        risk.from_dp_event(event)


def test_settings_that_an_event_gives_are_refused():
    for name, value in (("phases", []), ("sampler", "shuffle")):
        with pytest.raises(TypeError, match=f"from_dp_event reads {name} from the event"):
            risk.from_dp_event(nested(1.0, 0.01, 10), **{name: value})


def test_the_count_of_adaptive_clipping_is_no_phase():
    # both are released of one sample: one release with the sum of the inverse variances
    both = events.ComposedDpEvent([events.GaussianDpEvent(1.1), events.GaussianDpEvent(2.0)])
    event = events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, both), 1000)
    one = risk.training_run(
        noise_multiplier=1 / math.sqrt(1 / 1.1**2 + 1 / 2.0**2), sampling_rate=0.01, steps=1000
    )
    phases = risk.training_run(
        sampling_rate=0.01,
        steps=1000,
        phases=[{"noise_multiplier": 1.1}, {"noise_multiplier": 2.0}],
    )
    truth = risk.assess(risk.from_dp_event(event))["epsilon"]
    assert truth.value == pytest.approx(risk.assess(one)["epsilon"].value, rel=1e-9)
    assert risk.assess(phases)["epsilon"].upper < truth.lower


def test_events_within_events_without_end_are_refused():
    event = events.GaussianDpEvent(1.0)
    for _ in range(60):
        event = events.SelfComposedDpEvent(event, 1)
    with pytest.raises(ValueError, match="nested at most"):
        risk.from_dp_event(event)


# Commands that have moved -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "now"),
    [
        (["list", "--paper", "ziller2024"], "companion list --paper ziller2024"),
        (["run", "ziller2024/fig1", "--seed", "3"], "companion run ziller2024/fig1 --seed 3"),
        (["data", "fetch", "MNIST"], "companion data fetch MNIST"),
        (["book", "build"], "companion book build"),
    ],
)
def test_commands_of_the_companion_are_named(asked, now):
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 2
    moved = f"`reconrisk {asked[0]}` is now a command of the companion: {now}"
    assert result.stderr == f"error: {moved}\n"
    assert not re.search(rf"│ {asked[0]} ", CliRunner().invoke(app, ["--help"]).stdout)


def test_what_an_extra_brings_is_named_where_it_is_missing():
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.partition('.')[0] in sys.argv[1].split(','):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "exec(sys.argv[2])\n"
    )

    def run(absent, then):
        return subprocess.run(
            [sys.executable, "-c", code, absent, then], capture_output=True, text=True
        )

    core = "import reconrisk.bounds, reconrisk.privacy, reconrisk.risk, reconrisk.special"
    heavy = "torch,typer,rich,yaml,matplotlib,pandas,PIL,skimage,sklearn"
    assert run(heavy, core).returncode == 0
    said = run("torch", "import reconrisk.attacks").stderr
    assert "reconrisk.attacks needs torch: pip install 'reconrisk[train]'" in said
    said = run("typer", "from reconrisk.cli import main; main()")
    assert said.returncode == 2 and "pip install 'reconrisk[cli]'" in said.stderr


# Weight ------------------------------------------------------------------------------------------


def test_a_report_loads_no_heavy_library():
    code = (
        "import sys; from reconrisk.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'torch', 'pandas', 'matplotlib', 'opacus', 'dp_accounting'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "risk", *ONE], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Epsilon" in done.stdout


@settings(max_examples=20, deadline=None)
@given(st.floats(0.3, 30.0), st.integers(1, 10**6))
def test_the_report_is_the_library_s(sigma, steps):
    run = risk.training_run(noise_multiplier=sigma, sampling_rate=1.0, steps=steps)
    entry = risk.assess(run, None, risk.questions(prior_sizes=(10,)))["rero[prior_size=10]"]
    exact = bounds.rero_gaussian(sigma, 0.1, steps=steps)
    assert entry.lower <= exact * (1 + 1e-12) and exact <= entry.upper * (1 + 1e-12)
