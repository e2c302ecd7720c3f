"""The inputs of a report from flags and files: names, precedence, validation."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reconrisk import risk
from reconrisk.arguments import shown
from reconrisk.cli._risk_file import read_json, read_mapping, scalar
from reconrisk.cli._risk_table import TABLES, read_table
from reconrisk.risk import Questions, Record, SettingError, TrainingRun, TwoLayerModel
from reconrisk.risk._settings import number, whole

__all__ = ["FIELDS", "MODEL_FIELDS", "CliInputs", "read_inputs", "values_of_flags"]

RUN = (
    "noise_multiplier", "concentration", "mechanism", "sampling_rate", "batch_size",
    "dataset_size", "steps", "epochs", "max_grad_norm", "parameters", "layers", "delta",
    "group_size", "sampler", "adjacency", "phases",
)  # fmt: skip
RECORD = ("dimension", "data_range", "data_norm", "contrast", "picture")
QUESTIONS = (
    "false_positive_rates", "prior_sizes", "log_priors", "mse", "psnr", "ncc", "pixel_shares",
)  # fmt: skip
MODEL_FIELDS = (
    "width", "activation", "batch_size", "residual", "grad_norm", "singular_value", "condition",
    "dropout", "pruned",
)  # fmt: skip
#: fields of a file from which arguments of the library's constructors are computed
OWN = ("image", "data", "opacus_history", "guarantee", "correlation", "model")
FIELDS = (*RUN, *RECORD, *QUESTIONS, *OWN)

#: most records and most values of a data set that are measured
_SAMPLE_RECORDS, _SAMPLE_VALUES = 10_000, 50_000_000
#: a norm below it is zero
_LEAST_NORM = 1e-9
#: fields of a file that a flag overrides because they describe the same quantity
_OVERRIDES = {
    "noise_multiplier": ("concentration", "mechanism", "opacus_history", "guarantee"),
    "concentration": ("noise_multiplier", "mechanism", "opacus_history", "guarantee"),
    "sampling_rate": ("batch_size",),
    "batch_size": ("sampling_rate",),
    "steps": ("epochs",),
    "epochs": ("steps",),
    "dimension": ("image", "data"),
    "image": ("dimension", "data"),
    "data": ("dimension", "image", "data_norm", "contrast"),
    "data_norm": ("data",),
    "opacus_history": (
        "noise_multiplier", "sampling_rate", "batch_size", "steps", "epochs", "phases", "guarantee",
    ),
    "guarantee": (
        "noise_multiplier", "concentration", "mechanism", "sampling_rate", "batch_size", "steps",
        "epochs", "max_grad_norm", "parameters", "layers", "sampler",
        "adjacency", "phases", "opacus_history",
    ),
}  # fmt: skip
#: fields of a phase that come before a flag, whose value would not be read
_OF_A_PHASE = {
    "noise_multiplier": ("noise_multiplier",),
    "sampling_rate": ("sampling_rate", "batch_size"),
    "batch_size": ("sampling_rate", "batch_size"),
    "dataset_size": ("dataset_size",),
    "steps": ("steps", "epochs"),
    "epochs": ("steps", "epochs"),
}
#: fields by the names of flags that are not theirs
_OTHER_NAMES = {
    "sigma": "noise_multiplier", "s": "noise_multiplier", "q": "sampling_rate", "t": "steps",
    "log_prior_success": "log_priors", "log_prior": "log_priors",
}  # fmt: skip


@dataclass(frozen=True)
class CliInputs:
    """The inputs of one report, with the name of their file and notes on how they were read.

    ``answer`` states the noise found for a target; it is empty without one.
    """

    name: str
    run: TrainingRun
    record: Record
    questions: Questions
    model: TwoLayerModel | None
    notes: tuple[str, ...] = ()
    answer: str = ""


def values_of_flags(flags: Mapping[str, str | Sequence[str] | None]) -> dict[str, Any]:
    """Return the fields given by flags; numbers are read as in a file."""
    given: dict[str, Any] = {}
    for name, text in flags.items():
        if text is None or text == []:
            continue
        given[name] = _flag_value(text) if isinstance(text, str) else [_flag_value(t) for t in text]
    return given


def _flag_value(text: str) -> Any:
    """Return the value of a flag; an empty value stays a string, so that validation refuses it."""
    value = scalar(text)
    return text if value is None else value


def read_inputs(
    file: Path | None,
    flags: Mapping[str, Any],
    model_flags: Mapping[str, Any],
    *,
    any_noise: bool = False,
) -> CliInputs:
    """Return the inputs that a file and flags describe; flags override the file.

    With ``any_noise`` the noise may be missing, because it is to be found.

    Raises
    ------
    ValueError
        If the file is malformed, a field is unknown (the message lists the valid ones and suggests
        the closest), or a value is refused (the message names field, value and expectation).
    OSError
        If the file cannot be opened.
    """
    fields: dict[str, Any] = {}
    if file is not None:
        fields = read_mapping(file)
        _check_known(str(file), fields, FIELDS)
        for name, overridden in _OVERRIDES.items():
            if name in flags:
                for other in overridden:
                    fields.pop(other, None)
        _check_phases(file, fields.get("phases"), flags)
    model = _model_fields(file, fields.pop("model", None), model_flags)
    in_file = {name for name in fields if name not in flags}
    in_file |= {f"model {name}" for name in model if name not in model_flags}
    fields = {**fields, **flags}
    described = {"noise_multiplier", "concentration", "opacus_history", "phases", "guarantee"}
    if any_noise and not described & set(fields):
        fields["concentration" if fields.get("mechanism") == "vmf" else "noise_multiplier"] = 1.0
    try:
        return _inputs(file, fields, model, in_file)
    except SettingError as error:
        if not fields:
            raise ValueError(
                "the run must be described: give --sigma with --sampling-rate and --steps, say, or "
                "--config FILE (--example prints one to start from); got nothing"
            ) from None
        from_file = file is not None and (error.value is None or error.field in in_file)
        raise ValueError(f"{file}: {error}" if from_file else str(error)) from None


def _inputs(
    file: Path | None, fields: dict[str, Any], model: dict[str, Any], in_file: set[str]
) -> CliInputs:
    # a field without a value counts as absent
    fields = {name: value for name, value in fields.items() if value is not None}
    # paths in a file are relative to the file
    folders = {name: file.parent for name in in_file if file is not None}
    record, notes = _record(fields, folders.get("data", Path()))
    asked = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name in QUESTIONS
        if (value := fields.get(name)) is not None
    }
    return CliInputs(
        name="these settings" if file is None else file.name,
        run=_run(fields, folders.get("opacus_history", Path())),
        record=record,
        questions=risk.questions(**asked),
        model=_model(model) if model else None,
        notes=notes,
    )


def _model(fields: dict[str, Any]) -> TwoLayerModel:
    try:
        return risk.two_layer_model(**{"width": None, **fields})
    except SettingError as error:
        raise SettingError(f"model {error.field}", error.value, error.expected) from None


def _check_known(where: str, given: Mapping[str, Any], valid: Sequence[str]) -> None:
    for name in given:
        if name in valid:
            continue
        other = _OTHER_NAMES.get(str(name))
        near = [other] if other in valid else difflib.get_close_matches(str(name), valid, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"{where}: unknown field {name!r}{hint}; there are {', '.join(valid)}")


def _check_phases(file: Path, phases: Any, flags: Mapping[str, Any]) -> None:
    """Refuse a flag whose quantity a phase in the file gives itself."""
    for i, phase in enumerate(phases if isinstance(phases, list) else []):
        for name, own in _OF_A_PHASE.items():
            given = [field for field in own if isinstance(phase, dict) and field in phase]
            if name in flags and given:
                raise ValueError(
                    f"{name} must be left out beside the phases of {file}: phases[{i}] gives its "
                    f"own {given[0]}; got {shown(flags[name])}"
                )


def _model_fields(file: Path | None, given: Any, model_flags: Mapping[str, Any]) -> dict[str, Any]:
    if given is None:
        return dict(model_flags)
    if not isinstance(given, dict):
        raise ValueError(f"{file}: model must hold fields of its own, such as width; got {given!r}")
    _check_known(f"{file}: model", given, MODEL_FIELDS)
    return {**{k: v for k, v in given.items() if v is not None}, **model_flags}


def _run(fields: Mapping[str, Any], folder: Path) -> TrainingRun:
    given = {name: fields[name] for name in RUN if name in fields}
    if "guarantee" in fields:
        return risk.from_guarantee(_guarantee(fields["guarantee"]), **given)
    if "correlation" in fields:
        return _correlated(fields["correlation"], given)
    if "opacus_history" not in fields:
        return risk.training_run(**given)
    path = folder / _path("opacus_history", fields["opacus_history"])
    twice = sorted({"noise_multiplier", "concentration", "sampling_rate", "steps", "epochs",
                    "mechanism", "phases"} & set(given))  # fmt: skip
    if twice:
        raise SettingError(
            twice[0], given[twice[0]], "left out beside opacus_history, which gives it"
        )
    history = read_json(path)
    batch = given.pop("batch_size", None)
    try:
        run = risk.from_opacus(history, **given)
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from None
    return run if batch is None else _with_batch(run, batch)


def _with_batch(run: TrainingRun, batch_size: Any) -> TrainingRun:
    """Return a recorded run with the size of its batches, which its history does not hold."""
    size = whole("batch_size", batch_size, 1, 1e12)
    if run.phases:
        raise SettingError("batch_size", batch_size, "left out beside a history of several phases")
    if run.dataset_size is not None:
        # the rate that Opacus records is one over the batches of an epoch, the last of them smaller
        batches, exact = 1.0 / run.sampling_rate, run.dataset_size / size
        if not math.floor(exact) * (1.0 - 1e-6) <= batches <= math.ceil(exact) * (1.0 + 1e-6):
            raise SettingError(
                "batch_size", batch_size, "dataset_size times the history's sampling rate, "
                f"{run.dataset_size * run.sampling_rate:g}, or left out",
            )  # fmt: skip
    return replace(run, batch_size=size)


def _correlated(value: Any, given: Mapping[str, Any]) -> TrainingRun:
    """Return a run whose noise is correlated between steps."""
    found = _parts("correlation", value, "fields such as encoder=square-root, bands=8, period=234")
    for name in found:
        if name not in _OF_CORRELATION:
            raise SettingError(
                f"correlation {name}", found[name], f"one of {', '.join(_OF_CORRELATION)}"
            )
    if "encoder" not in found:
        raise SettingError("correlation encoder", None, "given: tree or square-root")
    if "noise_multiplier" not in given:
        raise SettingError("noise_multiplier", None, "given with correlation")
    settings = {**given, **found}
    if "sampling_rate" not in settings:  # with it batches are drawn in secret, without epochs
        settings = _by_epochs(settings)
    if "steps" not in settings:
        raise SettingError(
            "steps", None, "given with correlation, or epochs with batch_size and dataset_size"
        )
    return risk.correlated_run(**settings)


_OF_CORRELATION = ("encoder", "bands", "period", "order")


def _by_epochs(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of correlated noise with steps and period for epochs and size of batches.

    An epoch is taken to have as many steps as there are whole batches: a record that comes back
    sooner is the greater risk.
    """
    found = dict(settings)
    batch, epochs = found.pop("batch_size", None), found.pop("epochs", None)
    period, steps = found.get("period"), found.get("steps")
    if batch is not None:
        b = whole("batch_size", batch, 1, 1e12)
        n = whole("dataset_size", found.get("dataset_size"), 1, 1e12)
        if b > n:
            raise SettingError("batch_size", batch, f"at most dataset_size, {n}")
        if period is None:
            period = n // b
        elif not n // b <= whole("correlation period", period, 1, 1e12) <= -(-n // b):
            raise SettingError(
                "correlation period", period, f"dataset_size/batch_size = {n / b:g}, rounded, or "
                "left out",
            )  # fmt: skip
    if epochs is not None:
        passes = number("epochs", epochs, 0, 1e9, low_open=True)
        if period is None:
            raise SettingError(
                "correlation period", None, "given with epochs, or batch_size and dataset_size"
            )
        length = whole("correlation period", period, 1, 1e12)
        least, most = passes * length, passes * (length + 1)
        if steps is None:
            found["steps"] = steps = max(1, math.ceil(least * (1.0 - 1e-12)))
        elif not least - 1.0 < whole("steps", steps, 1, 1e9) < most + 1.0:
            raise SettingError("steps", steps, f"epochs times period = {least:g}, or left out")
    if "period" not in found and period is not None and steps is not None:
        found["period"] = min(period, whole("steps", steps, 1, 1e9))
    return found


def _guarantee(value: Any) -> dict[str, Any]:
    """Return the fields of a guarantee, of a flag as well: ``epsilon=3, delta=1e-5``."""
    return _parts("guarantee", value, "fields such as epsilon=3, delta=1e-5")


def _parts(name: str, value: Any, expected: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return {part: one for part, one in value.items() if one is not None}
    if not isinstance(value, str):
        raise SettingError(name, value, expected)
    found: dict[str, Any] = {}
    for part in value.split(","):
        field, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals or not field or field in found:
            raise SettingError(name, value, expected)
        found[field] = scalar(text)
    return found


def _record(fields: Mapping[str, Any], folder: Path) -> tuple[Record, tuple[str, ...]]:
    given = {name: fields[name] for name in RECORD if name in fields}
    sides = _sides(fields["image"]) if "image" in fields else None
    if "data" in fields:
        path = folder / _path("data", fields["data"])
        if path.suffix.lower() in TABLES and path.is_file():
            return _of_table(path, sides, given)
        sample, note = _sample(path, sides)
        given.setdefault("picture", True)
        given.setdefault("data_range", 1.0)  # images are read with values in [0, 1]
        return risk.record(sample=sample, **given), (note,)
    if sides is not None:
        size = math.prod(sides)
        given.setdefault("picture", True)
        if given.setdefault("dimension", size) != size:
            raise SettingError(
                "dimension", given["dimension"], f"that of the image, {size}, or left out"
            )
    return risk.record(**given), ()


def _of_table(
    path: Path, sides: list[int] | None, given: dict[str, Any]
) -> tuple[Record, tuple[str, ...]]:
    """Return the records of a table, with its largest minus its smallest value as their range."""
    if sides is not None:
        raise SettingError("image", "x".join(map(str, sides)), "left out beside a table")
    rows, count = read_table(path, _SAMPLE_RECORDS)
    given.setdefault("data_range", float(np.ptp(rows)))
    what = f"{count:,} records of the table {path.name}"
    if count > len(rows):
        what = f"the first {len(rows):,} of {what}"
    return risk.record(sample=rows, **given), (_measured(what),)


def _measured(what: str) -> str:
    return (
        f"norms measured on {what}. The smallest is used: it is the easiest to reconstruct; "
        "records that were not measured may be smaller still"
    )


def _sample(path: Path, sides: list[int] | None) -> tuple[Any, str]:
    """Return the images below a path as rows, as many as fit, and a note on what was measured."""
    from reconrisk.datasets import own_images

    how: dict[str, Any] = {}
    if sides is not None:
        if len(sides) not in (2, 3) or sides[0] != sides[1] or sides[2:] not in ([], [1], [3]):
            raise SettingError(
                "image",
                "x".join(map(str, sides)),
                "square, with 1 or 3 channels, beside data: images are cut to it",
            )
        how = {"side": sides[0], "colour": sides[2:] == [3]}
    one = own_images(path, most=1, **how)
    most = int(min(max(_SAMPLE_VALUES // one.inputs.shape[1], 1), _SAMPLE_RECORDS))
    images = own_images(path, most=most, **how)
    for blank in np.flatnonzero(np.linalg.norm(images.inputs, axis=1) < _LEAST_NORM)[:1]:
        which = images.files[blank] if images.files else f"picture {blank + 1} in the order read"
        raise SettingError("data", str(path), f"without pictures of norm zero; {which} is black")
    return images.inputs, _measured(images.source)


def _path(name: str, value: Any) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise SettingError(name, value, "the path of a file or folder")
    return Path(value)


def _sides(value: Any) -> list[int]:
    """Parse height, width and channels of an image: ``224x224x3`` or ``[224, 224, 3]``."""
    sides: Any = value
    if isinstance(value, str):
        sides = [int(s) for s in re.split("[x×]", value)] if _SIZES.fullmatch(value) else None
    whole = isinstance(sides, list) and all(type(s) is int and 1 <= s <= 10**6 for s in sides)
    if not whole or not 2 <= len(sides) <= 4:
        raise SettingError("image", value, "height x width x channels, such as 224x224x3")
    return sides


_SIZES = re.compile(r"[0-9]{1,7}([x×][0-9]{1,7}){1,3}")
