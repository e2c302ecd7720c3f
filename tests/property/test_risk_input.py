"""Whatever is written on the command line or in a file: an answer, or one line that names it."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconrisk import risk
from reconrisk.cli._risk_file import read_mapping, scalar
from reconrisk.cli._risk_inputs import FIELDS, MODEL_FIELDS, QUESTIONS, read_inputs
from reconrisk.cli.app import app

#: built once: a hundredth of a second, a thousand times
COMMAND = typer.main.get_command(app)
NUMBERS = [
    "noise_multiplier", "concentration", "sampling_rate", "batch_size", "dataset_size", "steps",
    "epochs", "max_grad_norm", "delta", "parameters", "layers", "dimension", "data_range",
    "data_norm", "contrast", *QUESTIONS,
]  # fmt: skip
#: values that no field takes, with the types that files and people produce by mistake
NONSENSE = [
    "x", "nan", "inf", "-inf", "1e999", "", " ", "1,5", "0x10", "1_000", "٣", "½", "None", "true",
    "yes", "1:30", "--", "1e", "9" * 5000, "\ud83d\ude00", "1\n2", "null\0",
]  # fmt: skip


@dataclass(frozen=True)
class Called:
    """What a command printed, and how it ended; any exception but SystemExit is the test's."""

    status: int
    stdout: str
    stderr: str


def call(*arguments: str) -> Called:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        with pytest.raises(SystemExit) as ended:
            COMMAND.main(["risk", *arguments], prog_name="reconrisk")
    return Called(ended.value.code or 0, out.getvalue(), err.getvalue())


def refused(result: Called) -> str:
    """The one error of a command that was refused; fails on anything else."""
    assert result.status == 2 and result.stdout == "", result
    assert result.stderr.startswith("error: ") and "Traceback" not in result.stderr
    return result.stderr


def flag_of(field: str) -> str:
    names = {"log_priors": "log-prior-success"}
    one = field.removesuffix("s") if field in QUESTIONS else field
    return "--" + names.get(field, one.replace("_", "-"))


def base(field: str) -> list[str]:
    given = [] if field in ("noise_multiplier", "concentration") else ["-s", "1"]
    given += [] if field in ("steps", "epochs") else ["-t", "1"]
    given += [] if field in ("sampling_rate", "batch_size") else ["-q", "1"]
    return given + (["--dataset-size", "100"] if field == "batch_size" else [])


#: a full batch in one step, for settings that are about something else
ONCE = ["-q", "1", "-t", "1"]


def plain(value) -> bool:
    """Whether a JSON value holds no nan and no infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(plain, value.values()))
    return all(map(plain, value)) if isinstance(value, list) else True


@pytest.mark.parametrize("field", NUMBERS)
def test_every_flag_refuses_what_is_no_number(field):
    for value in NONSENSE:
        message = refused(call(*base(field), f"{flag_of(field)}={value}"))
        assert field in message and "must" in message and "got" in message, (value, message)


@pytest.mark.parametrize("field", NUMBERS)
def test_every_field_of_a_file_refuses_other_types(field, tmp_path):
    file = tmp_path / "run.json"
    for value in (True, False, "x", "1", {"a": 1}, [[1]], ["x"], [True], [None], 10**400, 1e999):
        fields = {"noise_multiplier": 1.0, "dataset_size": 100, "sampling_rate": 1.0, "steps": 1}
        for other in {"batch_size": ["sampling_rate"], "epochs": ["steps"]}.get(field, []):
            del fields[other]
        fields[field] = value
        if field == "concentration":
            del fields["noise_multiplier"]
        text = json.dumps(fields).replace("Infinity", "1e999")
        file.write_text(text)
        message = refused(call("--config", str(file)))
        assert str(file) in message and (field in message or "digits" in message), message


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("noise_multiplier", "0", "[1e-06, 1e+06]"),
        ("noise_multiplier", "-1", "[1e-06, 1e+06]"),
        ("sampling_rate", "1.5", "[1e-09, 1]"),
        ("sampling_rate", "0", "[1e-09, 1]"),
        ("steps", "1.5", "whole number"),
        ("steps", "2000000000", "[1, 1e+09]"),
        ("delta", "1", "[1e-100, 1)"),
        ("dimension", "0", "[1, 1e+09]"),
        ("contrast", "1.1", "[0, 1]"),
        ("prior_sizes", "1", "[2, 1e+300]"),
        ("log_priors", "0", "[-1e+06, 0"),
        ("batch_size", "200", "at most dataset_size, 100"),
    ],
)
def test_out_of_range_says_what_was_expected(field, value, expected):
    message = refused(call(*base(field), f"{flag_of(field)}={value}"))
    assert message.startswith(f"error: {field} must be ") and expected in message
    assert f"got {float(value):g}" in message or f"got {value}" in message


def test_a_file_is_read_as_it_is_meant(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("a: 1e-5\nb: [1, 2e3, .5]\nc: yes\nd: 1:30\ne: 0777\nf: '12'\ng: ~\nh: true\n")
    assert read_mapping(file) == {
        "a": 1e-5, "b": [1, 2000.0, 0.5], "c": "yes", "d": "1:30", "e": 777, "f": "12", "g": None,
        "h": True,
    }  # fmt: skip


BROKEN = {
    "twice.yaml": (b"steps: 1\nsteps: 2\n", "line 2: 'steps' is given twice"),
    "twice.json": (b'{"steps": 1, "steps": 2}', "'steps' is given twice"),
    "alias.yaml": (b"a: &x [1]\nb: *x\n", "line 1: anchors and aliases"),
    "tag.yaml": (b"a: !!python/object/apply:os.system [x]\n", "tags (!) are not read"),
    "several.yaml": (b"steps: 1\n---\nsteps: 2\n", "another document"),
    "list.yaml": (b"- 1\n", "must hold fields"),
    "number.json": (b"3", "must hold fields"),
    "deep.yaml": (b"a: " + b"[" * 3000, "nested more than 20 deep"),
    "deep.json": (b"[" * 100_000, "nested too deep"),
    "nan.json": (b'{"steps": NaN}', "NaN is not JSON"),
    "digits.json": (b'{"steps": ' + b"9" * 5000 + b"}", "5,000 digits"),
    "utf16.yaml": ("steps: 1".encode("utf-16"), "must be text in UTF-8"),
    "latin.yaml": ("# caf\u00e9".encode("latin-1"), "must be text in UTF-8"),
    "binary.yaml": (bytes(range(8)), "special characters"),
    "open.yaml": (b"steps: [1", "line 1"),
    "tab.yaml": (b"\tsteps: 1", "line 1"),
    "cut.json": (b'{"steps": ', "line 1"),
    "large.yaml": (b"#" * 1_000_001, "must be at most 1,000,000 bytes"),
    "misspelt.yaml": (b"noise_multiplyer: 1\n", "did you mean noise_multiplier?"),
    "unknown.yaml": (b"zzz: 1\n", "there are noise_multiplier, concentration"),
    "merge.yaml": (b"<<: {steps: 1}\n", "unknown field '<<'"),
    "model.yaml": (
        b"noise_multiplier: 1\nsteps: 1\nsampling_rate: 1\nmodel: 3\n",
        "model must hold fields of its own",
    ),
    "depth.yaml": (
        b"noise_multiplier: 1\nsteps: 1\nsampling_rate: 1\nmodel: {widht: 3}\n",
        "did you mean width?",
    ),
    "width.yaml": (
        b"noise_multiplier: 1\nsteps: 1\nsampling_rate: 1\nmodel: {batch_size: 3}\n",
        "width must be",
    ),
    "image.yaml": (b"noise_multiplier: 1\nimage: 28xx28\n", "image must be height x width"),
    "data.yaml": (b"noise_multiplier: 1\ndata: [1]\n", "data must be the path"),
    "empty.yaml": (b"", "the run must be described"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_by_name_and_place(name, tmp_path):
    content, why = BROKEN[name]
    (tmp_path / name).write_bytes(content)
    message = refused(call("--config", str(tmp_path / name)))
    assert why in message
    assert name in message or name == "empty.yaml"


def test_what_is_no_file_is_refused(tmp_path):
    assert "is a folder" in refused(call("--config", str(tmp_path)))
    assert "the run must be described: give --sigma" in refused(call())
    assert "absent.yaml" in refused(call("--config", str(tmp_path / "absent.yaml")))
    for flag, noise in (("--data", ["-s", "1"]), ("--opacus-history", [])):
        assert "absent" in refused(call(*noise, flag, str(tmp_path / "absent")))
        assert "must be the path" in refused(call(*noise, f"{flag}=3"))
    both = refused(call("-s", "1", "--opacus-history", "x"))
    assert "noise_multiplier must be left out beside opacus_history" in both


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[]", "is empty"),
        ("{}", "takes a PrivacyEngine"),
        ("[[1, 0.5]]", "three numbers"),
        ("[[0, 0.5, 3]]", "history[0], noise_multiplier, must be in (0, inf]"),
        ("[[1, 2, 3]]", "sample_rate, must be in (0, 1]"),
        ("[[1, 0.5, 1.5]]", "must be a whole number"),
        ('[["a", 0.5, 1]]', "must be a real number"),
        ("[[[1, 2], 0.5, 1]]", "three single numbers"),
        ("[[true, 0.5, 1]]", "must hold three numbers"),
    ],
)
def test_a_broken_history_is_refused(content, why, tmp_path):
    file = tmp_path / "history.json"
    file.write_text(content)
    message = refused(call("--opacus-history", str(file)))
    assert why in message


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(b"? ")
@example(b"{")
@example(b"%TAG ! x\n---\na: 1")
def test_no_bytes_break_the_reading(tmp_path, content):
    """Any bytes are fields, or refused by ValueError; JSON and YAML alike."""
    for name in ("any.yaml", "any.json"):
        file = tmp_path / name
        file.write_bytes(content)
        try:
            found = read_mapping(file)
        except ValueError as error:
            assert str(file) in str(error)
        else:
            assert isinstance(found, dict) and all(isinstance(key, str) for key in found)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from([0, 1, 2, 0.5, 1e-5, 28, 1e9, 10**20, "gaussian", "vmf", "28x28", "tanh"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(MODEL_FIELDS), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=7))
@settings(max_examples=150, deadline=None)
def test_any_fields_are_a_setting_or_refused(fields):
    """Settings are made or refused by a message with ``got``; nothing else is raised."""
    if "data" in fields or "opacus_history" in fields:
        fields.pop("data", None)
        fields.pop("opacus_history", None)
    model = fields.pop("model", None)
    flags = dict(fields)
    try:
        made = read_inputs(None, flags, model if isinstance(model, dict) else {})
    except ValueError as error:
        assert "got" in str(error)
    else:
        assert math.isfinite(made.run.sampling_rate) and made.run.steps >= 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["-s", "1e-6", "-q", "0.01", "-t", "1e9"],
        ["-s", "1e6", "-q", "1e-9", "-t", "1e9"],
        [
            *ONCE,
            "-s",
            "1e6",
            "--image",
            "1000000x1000",
            "--data-norm",
            "1e12",
            "--data-range",
            "1e12",
        ],
        [*ONCE, "-s", "1e-6", "--dimension", "1", "--data-norm", "1e-9", "--data-range", "1e-9"],
        ["-s", "1", "-q", "1", "-t", "1e9", "--log-prior-success=-4260", "--prior-size", "1e300"],
        ["--concentration", "1e5", "--parameters", "2", "-t", "1e9", "-q", "1e-9"],
        [*ONCE, "--concentration", "1e-6", "--parameters", "1e9", "--dimension", "1e9"],
        [*ONCE, "-s", "1", "--model-width", "1e12", "--dimension", "1e9", "--parameters", "1e9"],
        ["-s", "1", "--delta", "1e-100", "-q", "0.5", "-t", "100"],
    ],
)
def test_extreme_settings_answer_or_say_why(arguments):
    result = call(*arguments, "--format", "json")
    assert result.status == 0, result
    report = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(word))
    assert plain(report)
    for entry in report["entries"]:
        assert (entry["status"] == "ok") == (entry["reason"] == "")
        low, high = entry["lower"], entry["upper"]
        assert low is None or high is None or low <= high
        if entry["unit"] == "probability" and entry["status"] == "ok":
            assert 0.0 <= low <= high <= 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        ["-s", "1e-6", "-q", "0.01", "-t", "1e9"],
        ["-s", "1e6", "-q", "1e-9", "-t", "1e9", "--dimension", "1e9", "--data-norm", "1e12"],
        ["--concentration", "1e5", "--parameters", "2", "-t", "1e9", "-q", "1e-9"],
        [*ONCE, "-s", "1", "--log-prior-success=-4260", "--prior-size", "1e300"],
    ],
)
def test_extreme_settings_are_drawn_or_left_out(arguments):
    page = call(*arguments, "--format", "html").stdout
    assert page.endswith("</html>\n") and "nan" not in re.sub("dominant", "", page)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--target", "epsilon"], "--target must be RISK=LIMIT"),
        (["--target", "epsilo=1"], "did you mean epsilon?"),
        (["--target", "epsilon=x"], "must have a number"),
        (["--target", "epsilon=true"], "must have a number"),
        (["--target", "epsilon=1", "--at", "3"], "--at must be left out"),
        (["--target", "success=0.1"], "--at must say at which prior size"),
        (["--target", "success=0.1", "--at", "x"], "--at must be a number"),
        (["--target", "success=0.01", "--at", "10"], "limit must be within reach"),
        (["--target", "success=2", "--at", "10"], "limit must be"),
        (["--target", "psnr=20"], "must be given for psnr"),
        (["--at", "3"], "--at goes with --target"),
        (["--format", "pdf"], "--format must be one of"),
        (["--batch-size", "3"], "dataset_size must be given"),
        (["--mechanism", "vmf"], "got"),
        (["--mechanism", "laplace"], "'gaussian' or 'vmf'"),
        (["--image", "0x3"], "image must be"),
        (["--image", "2x2", "--dimension", "5"], "dimension must be that of the image, 4"),
        (["--model-activation", "cubic", "--model-width", "3"], "activation must be one of"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments, why):
    rate = [] if "--batch-size" in arguments else ["-q", "1"]
    assert why in refused(call("-s", "1", "-t", "1", *rate, *arguments))


def test_the_fields_are_those_of_the_library():
    import inspect

    from reconrisk.cli import _risk_inputs as inputs

    def names(function):
        return set(inspect.signature(function).parameters)

    assert set(inputs.RUN) == names(risk.training_run) - {"notes"}
    assert set(inputs.RECORD) == names(risk.record) - {"sample"}
    assert set(inputs.QUESTIONS) == names(risk.questions)
    assert set(inputs.MODEL_FIELDS) == names(risk.two_layer_model) - {"information", "inputs"}


@given(st.text(max_size=12))
def test_a_word_is_a_number_or_itself(text):
    value = scalar(text)
    assert value is None or isinstance(value, bool | int | float) or value == text


def test_nothing_is_written_where_nothing_can_be(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for target in (tmp_path, blocked / "inside", Path("/proc/none/x")):
        for form in ("json", "terminal", "markdown"):
            refused(call("-s", "1", "--format", form, "--out", str(target)))
