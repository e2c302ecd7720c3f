"""``reconrisk risk``: the reconstruction risk of a training run under every threat model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reconrisk.cli.console import (
    check_writable,
    note,
    said_when_slow,
    usage_errors,
    width_of,
    write_out,
    write_whole,
)

if TYPE_CHECKING:
    from reconrisk.cli._risk_inputs import CliInputs
    from reconrisk.risk import Report

__all__ = ["risk"]

FORMATS = ("terminal", "markdown", "json", "html")


def _flag(help_text: str, *names: str, metavar: str = "NUMBER", panel: str = "The run") -> Any:
    return typer.Option(*names, metavar=metavar, help=help_text, rich_help_panel=panel)


def _record(help_text: str, *names: str, metavar: str = "NUMBER") -> Any:
    return _flag(help_text, *names, metavar=metavar, panel="One record")


def _asked(help_text: str, *names: str) -> Any:
    return _flag(f"{help_text} (repeatable)", *names, panel="What is asked")


def _model(help_text: str, *names: str, metavar: str = "NUMBER") -> Any:
    return _flag(help_text, *names, metavar=metavar, panel="A two-layer network")


# Flags are strings: numbers are parsed and validated like those of a file.
Text = str | None
Texts = list[str] | None


def risk(
    context: typer.Context,
    noise_multiplier: Annotated[
        Text,
        _flag(
            "Standard deviation of the noise over the clipping norm.",
            "--noise-multiplier",
            "--sigma",
            "-s",
        ),
    ] = None,
    sampling_rate: Annotated[
        Text, _flag("Chance that a record is in a batch; 1: full batch.", "--sampling-rate", "-q")
    ] = None,
    batch_size: Annotated[Text, _flag("With --dataset-size, instead of a sampling rate.")] = None,
    dataset_size: Annotated[Text, _flag("Records in the training set.")] = None,
    steps: Annotated[Text, _flag("Steps of training.", "--steps", "-t")] = None,
    epochs: Annotated[Text, _flag("Passes over the data, instead of steps.")] = None,
    sampler: Annotated[
        Text,
        _flag(
            "How batches are drawn: poisson (default), shuffle, fixed (size), random-allocation or "
            "cyclic.",
            metavar="NAME",
        ),
    ] = None,
    adjacency: Annotated[
        Text,
        _flag(
            "What the neighbouring data set has in a record's place: add-remove (nothing), "
            "zero-out (a record of gradient zero) or replace (any other).",
            metavar="NAME",
        ),
    ] = None,
    max_grad_norm: Annotated[Text, _flag("Clipping norm; by default 1.")] = None,
    delta: Annotated[Text, _flag("At which epsilon is given; by default 1e-5.")] = None,
    parameters: Annotated[Text, _flag("Entries of the gradient that is released.")] = None,
    layers: Annotated[
        Text, _flag("Parts of the gradient that are clipped separately; by default 1.")
    ] = None,
    mechanism: Annotated[
        Text, _flag("gaussian (default) or vmf (von Mises-Fisher).", metavar="NAME")
    ] = None,
    concentration: Annotated[Text, _flag("Of VMF noise, instead of --noise-multiplier.")] = None,
    opacus_history: Annotated[
        Text,
        _flag(
            "JSON: the state_dict() of an Opacus accountant, or its history; gives noise, "
            "sampling rate and steps.",
            metavar="FILE",
        ),
    ] = None,
    guarantee: Annotated[
        Text,
        _flag(
            "Instead of all that, where only a guarantee is known: 'epsilon=3, delta=1e-5', "
            "'rho=0.5', 'mu=1', 'laplace_scale=2', 'random_answers=0.5, categories=4'.",
            metavar="FIELDS",
        ),
    ] = None,
    correlation: Annotated[
        Text,
        _flag(
            "Where noise is correlated between steps (DP-FTRL, banded matrices): "
            "'encoder=tree' or 'encoder=square-root, bands=8, period=234'.",
            metavar="FIELDS",
        ),
    ] = None,
    group_size: Annotated[
        Text, _flag("Records of one person, protected together; by default 1.")
    ] = None,
    dimension: Annotated[Text, _record("Number of values of a record.")] = None,
    image: Annotated[
        Text, _record("Instead of a dimension, e.g. 224x224x3.", metavar="HxWxC")
    ] = None,
    data_range: Annotated[Text, _record("Largest minus smallest possible value.")] = None,
    data_norm: Annotated[Text, _record("Euclidean norm of a record.")] = None,
    contrast: Annotated[
        Text, _record("Norm of a record minus its mean, over its norm: for the correlation.")
    ] = None,
    data: Annotated[
        Text,
        _record(
            "A sample of the data: dimension and norms are measured on it. Images, or a table of "
            "numbers (.csv, .tsv, .npy).",
            metavar="PATH",
        ),
    ] = None,
    prior_size: Annotated[
        Texts, _asked("Candidates, one of which is the record; by default 10, 1000, 1e6")
    ] = None,
    log_prior_success: Annotated[
        Texts,
        _asked(
            "Natural logarithm of the chance of a blind guess, e.g. -4260; log_priors in a file"
        ),
    ] = None,
    false_positive_rate: Annotated[Texts, _asked("Of a test of membership")] = None,
    mse: Annotated[Texts, _asked("Reconstructions with at most this error count")] = None,
    psnr: Annotated[Texts, _asked("Or with at least this PSNR, in dB")] = None,
    ncc: Annotated[Texts, _asked("Or with at least this correlation")] = None,
    pixel_share: Annotated[Texts, _asked("Or with this share of the values hit")] = None,
    model_width: Annotated[Text, _model("Hidden neurons; asks for the Cramer-Rao bound.")] = None,
    model_activation: Annotated[Text, _model("Of its neurons.", metavar="NAME")] = None,
    model_batch_size: Annotated[Text, _model("Records whose gradient is released.")] = None,
    model_residual: Annotated[Text, _model("Derivative of the loss in the output.")] = None,
    model_grad_norm: Annotated[Text, _model("Norm of the gradient before clipping.")] = None,
    model_singular_value: Annotated[Text, _model("Smallest, of the records' matrix.")] = None,
    model_condition: Annotated[Text, _model("Largest over smallest residual.")] = None,
    model_dropout: Annotated[Text, _model("Share of neurons dropped.")] = None,
    model_pruned: Annotated[Text, _model("Share of the gradient pruned.")] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="YAML or JSON with fields of these names, underscores "
            "for dashes (lists: in the plural). Several: side by side.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="RISK=LIMIT",
            help="Find the least noise that keeps to a limit, "
            "e.g. epsilon=2 or success=0.1 with --at 10, and report at that noise.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="What the target is asked at: a prior size, an error."),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help=" | ".join(FORMATS))
    ] = "terminal",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there instead of to the terminal.")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Each number's assumptions and tightness, too.")
    ] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print a file of settings to start from, and stop.")
    ] = False,
) -> None:
    """Report what attackers of each kind could do to one run of DP-SGD.

    Membership, matching against candidates, reconstruction without and with prior knowledge,
    information, capacity: each with its assumptions, its source and how tight it is. What needs a
    setting that was not given is left out, and named. Exit status 2: a wrong argument or file.

    Example: `reconrisk risk --sigma 1.1 --batch-size 256 --dataset-size 60000 --epochs 15`
    """
    if example:
        from reconrisk.cli._risk_file import EXAMPLE

        with usage_errors(context.obj):
            _write(EXAMPLE, out)
        return
    flags = {
        "noise_multiplier": noise_multiplier, "sampling_rate": sampling_rate,
        "batch_size": batch_size, "dataset_size": dataset_size, "steps": steps, "epochs": epochs,
        "max_grad_norm": max_grad_norm, "delta": delta, "parameters": parameters,
        "layers": layers, "mechanism": mechanism, "concentration": concentration,
        "opacus_history": opacus_history, "guarantee": guarantee, "group_size": group_size,
        "sampler": sampler, "adjacency": adjacency, "correlation": correlation,
        "dimension": dimension, "image": image,
        "data_range": data_range, "data_norm": data_norm, "contrast": contrast, "data": data,
        "prior_sizes": prior_size, "log_priors": log_prior_success,
        "false_positive_rates": false_positive_rate, "mse": mse, "psnr": psnr, "ncc": ncc,
        "pixel_shares": pixel_share,
    }  # fmt: skip
    model = {
        "width": model_width, "activation": model_activation, "batch_size": model_batch_size,
        "residual": model_residual, "grad_norm": model_grad_norm,
        "singular_value": model_singular_value, "condition": model_condition,
        "dropout": model_dropout, "pruned": model_pruned,
    }  # fmt: skip
    from reconrisk.cli import _risk_inputs as inputs

    with usage_errors(context.obj), said_when_slow("computing the report"):
        if format_ not in FORMATS:
            raise ValueError(f"--format must be one of {', '.join(FORMATS)}; got {format_!r}")
        files: list[Path | None] = [*config] if config else [None]
        given, model_given = inputs.values_of_flags(flags), inputs.values_of_flags(model)
        settings = [
            inputs.read_inputs(file, given, model_given, any_noise=target is not None)
            for file in files
        ]
        if target is not None:
            from reconrisk.cli._risk_target import at_least_noise

            settings = [at_least_noise(setting, target, at) for setting in settings]
        elif at is not None:
            raise ValueError(f"--at goes with --target, which is missing; got --at {at}")
        if out is not None:
            check_writable(out)  # before anything is computed
        reports = [_report(setting) for setting in settings]
        written = _write_reports(reports, settings, format_, details, width_of(out))
    with usage_errors(context.obj, (OSError,)):
        _write(written, out, any_reader=format_ in ("html", "markdown"))


def _report(setting: CliInputs) -> Report:
    from reconrisk import risk as library

    report = library.assess(setting.run, setting.record, setting.questions, setting.model)
    return replace(report, notes=(*setting.notes, *report.notes))


def _write_reports(
    reports: list[Report], settings: list[CliInputs], form: str, details: bool, width: int
) -> str:
    """Return the reports in a format; a terminal's lines have at most ``width`` characters."""
    from reconrisk.cli import _risk_compared as compared
    from reconrisk.risk import _report as text
    from reconrisk.risk._text import wrap

    if form == "json":
        return _as_json(reports, settings)
    if form == "html":
        from reconrisk.cli import _risk_html as html

        return html.card(reports, settings)
    single, answer = len(reports) == 1, settings[0].answer
    if form == "markdown":
        return (
            text.markdown(reports[0], answer) if single else compared.in_markdown(reports, settings)
        )
    if not single:
        return compared.in_terminal(reports, settings, width)
    page = text.plain(reports[0], width=width, details=details, answer=answer)
    hint = "" if details else "--details adds assumptions and tightness; --format html draws."
    return page + "\n".join(wrap(hint, width)) + "\n"


def _as_json(reports: list[Report], settings: list[CliInputs]) -> str:
    """One report as an object, several as a list."""
    found = []
    for report, setting in zip(reports, settings, strict=True):
        plain = report.as_dict()
        if setting.answer:
            plain["notes"] = [setting.answer, *plain["notes"]]
        found.append(plain)
    return json.dumps(found[0] if len(found) == 1 else found, indent=2, allow_nan=False) + "\n"


def _write(text: str, out: Path | None, *, any_reader: bool = False) -> None:
    """Write a text; with ``any_reader`` in UTF-8, as the readers of its format expect."""
    if out is None:
        try:
            write_out(text, utf8=any_reader)
        except BrokenPipeError:  # whoever reads has read enough
            raise
        except OSError as error:
            why = error.strerror or str(error)
            raise OSError(f"the standard output cannot be written: {why}") from None
        return
    write_whole(out, text)
    note(f"written to {out}")
