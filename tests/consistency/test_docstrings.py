"""The docstrings of the library's public functions name what is taken, returned and refused."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

ROOMS = (
    "special", "metrics", "privacy", "bounds", "risk", "mechanisms", "models", "training",
    "attacks", "datasets", "convnets", "two_layer", "feature_maps", "plotting",
)  # fmt: skip
#: what checks an argument, and raises
_CHECKS = re.compile(r"\b(?:arguments|args)\.\w+\(|\bcheck_run\(")
#: a function to which a docstring refers for what it does not say itself
_REFERRED = re.compile(r":func:`~?(?:reconrisk\.)?(?:(\w+)\.)?(\w+)`")


def _functions() -> dict[str, Callable[..., Any]]:
    found = {}
    for room in ROOMS:
        module = importlib.import_module(f"reconrisk.{room}")
        for name in module.__all__:
            value = inspect.unwrap(getattr(module, name))
            if inspect.isfunction(value):
                found[f"{room}.{name}"] = value
    return found


FUNCTIONS = _functions()


def _said(name: str) -> str:
    """A function's docstring, that of its room, and those of the functions that it refers to."""
    room, _, _ = name.partition(".")
    own = inspect.getdoc(FUNCTIONS[name]) or ""
    others = (f"{place or room}.{other}" for place, other in _REFERRED.findall(own))
    texts = [inspect.getdoc(FUNCTIONS[other]) or "" for other in others if other in FUNCTIONS]
    return "\n".join([own, *texts])


def _gaps(name: str) -> list[str]:
    function, said = FUNCTIONS[name], _said(name)
    signature = inspect.signature(function)
    gaps = [
        f"argument {parameter}"
        for parameter in signature.parameters
        if not re.search(rf"(?<!\w){re.escape(parameter)}(?!\w)", said)
    ]
    if signature.return_annotation not in (None, "None") and not re.search(
        r"\b(?:Returns?|Yields)\b", said
    ):
        gaps.append("what is returned")
    source = textwrap.dedent(inspect.getsource(function))
    refuses = any(isinstance(node, ast.Raise) for node in ast.walk(ast.parse(source)))
    room = importlib.import_module(f"reconrisk.{name.partition('.')[0]}").__doc__ or ""
    if (refuses or _CHECKS.search(source)) and "raise" not in (said + room).lower():
        gaps.append("what is raised")
    return gaps


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_names_arguments_result_and_errors(name: str) -> None:
    assert not _gaps(name)


def test_the_check_notices_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(level: float) -> float:
        """Do something."""
        if level < 0:
            raise ValueError("level must not be negative")
        return level

    monkeypatch.setitem(FUNCTIONS, "metrics.silent", silent)
    assert _gaps("metrics.silent") == ["argument level", "what is returned", "what is raised"]


#: with more than eight arguments: settings of a published algorithm, or of a run, each of which
#: its paper varies by itself, and which a caller names; no other may join without a reason
MANY = {
    "attacks.generative_attack", "attacks.invert_gradients", "attacks.invert_updates",
    "attacks.match_gradients", "attacks.prior_aware_attack", "attacks.proposed_attack",
    "attacks.recover_features", "attacks.refine_records", "attacks.shared_trajectory_attack",
    "attacks.sparse_batch_attack", "bounds.tensor_attack_order", "risk.training_run",
    "risk.two_layer_model", "training.record_trajectories", "training.train_many",
    "training.train_mini_batches", "training.train_under_defences",
    "two_layer.release_output_gradient",
}  # fmt: skip


def test_no_call_needs_more_than_eight_arguments_by_position() -> None:
    long = {}
    for name, function in FUNCTIONS.items():
        parameters = inspect.signature(function).parameters.values()
        if len(parameters) > 8:
            long[name] = sum(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in parameters)
    assert set(long) == MANY
    assert max(long.values()) <= 8, long
