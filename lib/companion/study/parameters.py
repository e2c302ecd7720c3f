"""Typed parameters: what an exhibit can be asked to do, in each profile and in the paper."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

PROFILES = ("quick", "paper")

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "ints": "a list of whole numbers",
    "floats": "a list of numbers",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of one exhibit.

    Parameters
    ----------
    kind : {"int", "float", "str", "ints", "floats"}
        Its type; lists are given as ``[a, b]``.
    quick, paper
        Its value in the two profiles.
    printed : str
        What the paper prints, or why it prints nothing.
    meaning : str
        What it does, with its unit.
    low : float
        The smallest value allowed (of each entry).
    stand_in : bool
        Whether any value but the paper's counts as a stand-in (a smaller network). Parameters that
        name a data set count without this mark.
    """

    kind: str
    quick: Any
    paper: Any
    printed: str
    meaning: str
    low: float = -math.inf
    stand_in: bool = False

    def parse(self, name: str, value: Any) -> Any:
        """Return ``value`` as this kind; read a string (from a command line) as YAML first.

        Unlike in YAML, ``1e-3`` is a number. Lists become tuples.

        Raises
        ------
        TypeError
            If it is of another type.
        ValueError
            If a number is below ``low`` or not finite, or a list is empty.
        """
        if isinstance(value, str) and self.kind != "str":
            value = _read(value)
        many = self.kind.endswith("s")
        entries = list(value) if many and isinstance(value, list | tuple) else [value]
        scalar = self.kind.rstrip("s") if many else self.kind
        if not all(_is(scalar, entry) for entry in entries) or (
            many and not isinstance(value, list | tuple)
        ):
            raise TypeError(f"{name} must be {_KINDS[self.kind]}; got {value!r}")
        if not entries:
            raise ValueError(f"{name} must not be empty")
        if scalar == "str":
            return value
        for entry in entries:
            if not (math.isfinite(entry) and entry >= self.low):
                raise ValueError(f"{name} must be finite and at least {self.low:g}; got {entry!r}")
        cast = int if scalar == "int" else float
        # seeds hash how a number is written: 10 and 10.0 must not give different draws
        written = {e: e for v in (self.quick, self.paper) for e in (v if many else [v])}
        read = [written.get(cast(e), cast(e)) for e in entries]
        return tuple(read) if many else read[0]


def _read(text: str) -> Any:
    """Read a text as YAML; invalid YAML stays a text, which no numeric kind accepts."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return [_number(v) for v in value] if isinstance(value, list) else _number(value)


def _number(value: Any) -> Any:
    # YAML 1.1 reads 1.0e-3 as a number but 1e-3 as a text
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return float(value)
    return value


def _is(kind: str, value: Any) -> bool:
    if kind == "str":
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return kind == "float" or isinstance(value, int) or float(value).is_integer()


class Settings(Mapping[str, Any]):
    """The values of one exhibit's parameters in one run; read as attributes or as a mapping."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"no parameter {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self):
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Settings({self._values})"


def resolve(
    exhibit_id: str,
    parameters: Mapping[str, Parameter],
    profile: str,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings of a run: the profile's values, with ``overrides`` in their place.

    Raises
    ------
    ValueError
        If the profile is unknown, or a value is out of range.
    TypeError
        If an override names no parameter (the message lists the valid ones) or has another type.
    """
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}")
    values = {name: getattr(p, profile) for name, p in parameters.items()}
    for name, value in (overrides or {}).items():
        if name not in parameters:
            valid = ", ".join(f"{n} ({p.kind})" for n, p in parameters.items()) or "none"
            raise TypeError(f"{exhibit_id} has no parameter {name!r}; its parameters: {valid}")
        values[name] = parameters[name].parse(name, value)
    return Settings(values)


def plain(value: Any) -> Any:
    """Return a value as JSON gives it back: lists for tuples, strings for keys."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value
