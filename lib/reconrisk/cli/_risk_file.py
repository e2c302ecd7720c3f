"""A strict reader of settings in YAML or JSON.

Numbers follow YAML 1.2 and JSON: ``1e-5`` is a number, and ``1:30``, ``0777`` and ``yes`` are
strings (YAML 1.1 reads them as 90, 511 and true). Whatever could hide a mistake is refused: a field
given twice, aliases, tags, several documents, text that is not UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

__all__ = ["EXAMPLE", "read_json", "read_mapping", "scalar"]

#: what `reconrisk risk --example` prints
EXAMPLE = """\
# Settings of one training run with DP-SGD, for `reconrisk risk --config FILE`.
# A line starting with # is not read. Flags of the same name come before what is written here.

# The run. Noise: standard deviation over the clipping norm.
noise_multiplier: 1.1
# Either the sampling rate, or batch and data-set size.
batch_size: 256
dataset_size: 60000
# Either steps or epochs.
epochs: 15
max_grad_norm: 1.0
# epsilon is given at this delta.
delta: 1e-5
# sampler: shuffle      # or fixed, random-allocation, cyclic; by default poisson
# correlation: {encoder: square-root, bands: 8}   # or tree: noise correlated between steps; period
#                       # (steps of an epoch) and order (any, same) may stand there, too
# group_size: 3         # records of one person, protected together

# If noise or batch size change during training: each phase, in any order. What a phase leaves out
# is what is written above.
# phases:
#   - {noise_multiplier: 1.3, epochs: 10}
#   - {noise_multiplier: 0.9, epochs: 5, batch_size: 512}

# Instead of all that, if only a guarantee is known; or rho (zCDP), mu (Gaussian DP), orders and
# divergences (Renyi), false_positives and false_negatives (trade-off), laplace_scale,
# random_answers and categories (randomised response). Local: adjacency: replace.
# guarantee: {epsilon: 3, delta: 1e-5}

# One record. Without these the report leaves out what needs them, and says so.
image: 28x28x1          # or  dimension: 784
data_range: 1.0         # largest minus smallest possible value
data_norm: 9.2          # Euclidean norm of a record, or  data: PATH  to measure it on a sample
# parameters: 26010     # of the model: for the capacity of what is released

# What is asked.
prior_sizes: [10, 1000, 1000000]    # candidates, one of which is the record
psnr: [20]                          # dB; a reconstruction at least as good counts
# mse: [0.01]
# ncc: [0.5]

# With a two-layer network in the attacker's hands, for the Cramer-Rao bound:
# model:
#   width: 5000
"""

#: bytes of the largest file that is read; settings take far less
_LARGEST = 1_000_000
#: deepest nesting of lists and mappings
_DEEPEST = 20
#: most digits of a whole number; a longer one does not fit a float and is slow to read
_LONGEST = 300

_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_CONSTANTS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}


def scalar(text: str) -> Any:
    """Return the value of a plain scalar: an int, a float, a bool, None, or the string itself.

    ``.inf`` and ``.nan`` stay strings: no setting is infinite.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


class _Loader(yaml.BaseLoader):
    """YAML with plain scalars as :func:`scalar` reads them; refuses anchors, tags and repeats."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _refuse("anchors and aliases (& and *) are not read here", event.start_mark)
        if getattr(event, "tag", None) not in (None, "!"):
            raise _refuse("tags (!) are not read here", event.start_mark)
        self._depth = getattr(self, "_depth", 0) + 1
        if self._depth > _DEEPEST:
            raise _refuse(f"nested more than {_DEEPEST} deep", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_scalar(self, node: Any) -> Any:
        return scalar(node.value) if node.style is None else node.value

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        found: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _refuse("the name of a field must be a word", key_node.start_mark)
            if key_node.value in found:
                raise _refuse(f"{key_node.value!r} is given twice", key_node.start_mark)
            found[key_node.value] = self.construct_object(value_node, deep=True)
        return found


for _tag, _construct in (
    ("str", _Loader.construct_scalar),
    ("seq", lambda loader, node: loader.construct_sequence(node, deep=True)),
    ("map", lambda loader, node: loader.construct_mapping(node, deep=True)),
):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _construct)


def _refuse(why: str, mark: Any) -> ValueError:
    return ValueError(f"line {mark.line + 1}: {why}")


def read_mapping(path: str | Path) -> dict[str, Any]:
    """Return the fields of a file: JSON if its name ends in ``.json``, YAML otherwise.

    Raises
    ------
    ValueError
        If the file is malformed; the message names the line and the fault.
    OSError
        If it cannot be read.
    """
    text = _read_text(path)
    value = _json(text, path) if Path(path).suffix.lower() == ".json" else _yaml(text, path)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold fields, 'name: value'; it holds {_shorten(value)}")
    return value


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file; raises as :func:`read_mapping`."""
    return _json(_read_text(path), path)


def _read_text(path: str | Path) -> str:
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"{path} must be a file of settings; it is a folder")
    try:
        with file.open("rb") as handle:
            data = handle.read(_LARGEST + 1)
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise OSError(f"{path} cannot be read: {why}") from None
    if len(data) > _LARGEST:
        raise ValueError(
            f"{path} must be at most {_LARGEST:,} bytes, as a file of settings is; it is larger"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} must be text in UTF-8; byte {error.start} is {data[error.start]:#04x}"
        ) from None


def _yaml(text: str, path: str | Path) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - builds texts, lists, mappings only
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" line {mark.line + 1}:"
        why = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        raise ValueError(f"{path}:{line} {why}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _json(text: str, path: str | Path) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ValueError(f"{name!r} is given twice")
            found[name] = value
        return found

    def finite(word: str) -> Any:
        raise ValueError(f"{word} is not JSON: numbers must be finite")

    def whole(digits: str) -> int:
        if len(digits) > _LONGEST:
            raise ValueError(
                f"numbers must have at most {_LONGEST} digits; got {len(digits):,} digits"
            )
        return int(digits)

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=finite, parse_int=whole)
    except RecursionError:
        raise ValueError(f"{path}: nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: line {error.lineno}: {error.msg}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
