"""Shapes of the public functions' arrays, enforced while the tests run.

:mod:`shape_contracts` says, in jaxtyping's notation, which shapes a public function takes and
returns. :func:`enforce` puts a checked function in the place of each, wherever the library, the
companion or a test refers to it, so that every test of a function is also one of its shapes. A call
is checked once it has returned: whatever the function accepts must fit its contract, and what it
refuses is its own business.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from jaxtyping import Shaped, jaxtyped

from shape_contracts import BROADCASTING, CONTRACTS, FIELDS

ROOMS = "special metrics bounds privacy mechanisms models training attacks".split()
ARRAYS = re.compile(
    r"ArrayLike|np\.ndarray|torch\.Tensor|\b(Weights|Gradient|Masks|" + "|".join(FIELDS) + r")\b"
)
SCALARS = re.compile(r"(int|float)( \| None)?")


class ShapeError(AssertionError):
    """A shape that is not in the contract. Not a ValueError: those are the library's own."""


def public_functions(room: str) -> dict[str, Callable[..., Any]]:
    module = importlib.import_module(f"reconrisk.{room}")
    named = {f"{room}.{name}": getattr(module, name) for name in module.__all__}
    return {name: value for name, value in named.items() if inspect.isfunction(value)}


def has_arrays(function: Callable[..., Any]) -> bool:
    return bool(ARRAYS.search(" ".join(map(str, function.__annotations__.values()))))


def array_fields(room: str) -> dict[str, list[str]]:
    """The array fields of each public dataclass of a room that has some."""
    module = importlib.import_module(f"reconrisk.{room}")
    found = {}
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) and dataclasses.is_dataclass(value):
            fields = [f.name for f in dataclasses.fields(value) if ARRAYS.search(str(f.type))]
            found |= {name: fields} if fields else {}
    return found


@dataclasses.dataclass(frozen=True)
class Contract:
    """What a function takes, by parameter, and returns: one entry, or as many as a tuple has."""

    takes: dict[str, str]
    returns: list[str]

    @functools.cached_property
    def axes(self) -> set[str]:
        """The integer parameters that axes are named after."""
        words = re.findall(r"\w+", " ".join([*self.takes.values(), *self.returns]))
        return {p for p, spec in self.takes.items() if spec == "()" and p in words}

    def sizes(self, given: Mapping[str, Any], returned: Any) -> tuple[Hashable, ...]:
        """All that a check looks at in one call: the shapes, and the sizes of axes."""
        values = {p: given.get(p) for p in self.takes}
        results = returned if len(self.returns) > 1 else (returned,)
        return (
            *(v if p in self.axes else _sizes(v, self.takes[p]) for p, v in values.items()),
            *map(_sizes, results, self.returns),
        )


def contract_of(name: str, function: Callable[..., Any]) -> Contract:
    """Read a function's entry; scalars need none, their annotations say it."""
    annotations = {
        parameter: str(value.annotation)
        for parameter, value in inspect.signature(function).parameters.items()
    }
    arrays = [p for p, annotation in annotations.items() if ARRAYS.search(annotation)]
    result = str(function.__annotations__.get("return", ""))
    room, _, short = name.partition(".")
    if short in BROADCASTING.get(room, "").split():
        takes, returns = ["*#b"] * len(arrays), ["*b"] * (2 if "tuple" in result else 1)
    elif name in CONTRACTS:
        before, _, after = CONTRACTS[name].partition("->")
        takes = [spec.strip() for spec in before.split(",") if spec.strip()]
        returns = [spec.strip() for spec in after.split(",")]
    else:
        takes = []
        returns = {"float": ["()"], "int": ["()"], "tuple[float, float]": ["()", "()"]}.get(
            result, ["any"]
        )
    if len(takes) != len(arrays):
        raise TypeError(f"the contract of {name} must have an entry for each of {arrays}: {takes}")
    scalars = {p: "()" for p, annotation in annotations.items() if SCALARS.fullmatch(annotation)}
    return Contract({**scalars, **dict(zip(arrays, takes, strict=True))}, returns)


@functools.cache
def _hint(dims: str) -> Any:
    return Shaped[np.ndarray, "" if dims == "()" else dims]


def _like(shape: tuple[int, ...]) -> np.ndarray:
    """An array of that shape without memory: only shapes are compared."""
    return np.broadcast_to(np.float64(0), shape)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape if hasattr(value, "shape") else np.shape(value))


def _sizes(value: Any, spec: str) -> Hashable:
    """All of a value that decides whether it fits an entry."""
    if value is None or spec == "any":
        return None
    if isinstance(value, Mapping):
        return tuple((key, _sizes(one, "")) for key, one in value.items())
    if not hasattr(value, "shape"):
        for one in spec.split("|"):
            if fields := FIELDS.get(one.strip().removeprefix("new ")):
                return tuple(_sizes(getattr(value, f, None), s) for f, s in fields.items())
    return _shape(value)


def fits(value: Any, spec: str) -> bool:
    """Whether a value fits an entry, given the sizes that the names have so far in this call."""
    if value is None or spec == "any":
        return True
    if "|" in spec:
        return any(fits(value, one.strip()) for one in spec.split("|"))
    if spec.startswith("new "):
        with jaxtyped("context"):
            return fits(value, spec[4:])
    if spec in FIELDS:
        get = value.get if isinstance(value, Mapping) else functools.partial(getattr, value)
        return all(fits(get(field, None), dims) for field, dims in FIELDS[spec].items())
    if spec.startswith("{"):
        return isinstance(value, Mapping) and all(fits(v, spec[1:-1]) for v in value.values())
    return not isinstance(value, Mapping) and isinstance(_like(_shape(value)), _hint(spec))


def _found(value: Any) -> str:
    if isinstance(value, Mapping):
        return str({key: _found(one) for key, one in value.items()})
    if dataclasses.is_dataclass(value):
        return _found(vars(value))
    return str(_shape(value)) if hasattr(value, "shape") else repr(value)[:80]


def check(name: str, contract: Contract, given: Mapping[str, Any], returned: Any) -> None:
    """Compare one call's shapes with the contract.

    Names of axes stand for one size throughout the call; an axis that is named as an integer
    parameter has its value. The leading axes ``*#b`` broadcast together, to exactly ``*b``.
    """
    results = returned if len(contract.returns) > 1 else (returned,)
    if len(results) != len(contract.returns):
        raise ShapeError(f"{name} must return {contract.returns}; got {len(results)} values")
    leading = []

    def compare(what: str, value: Any, spec: str) -> None:
        if not fits(value, spec):
            shapes = ", ".join(f"{p} {_found(given[p])}" for p in contract.takes if p in given)
            raise ShapeError(f"{what} of {name} must be {spec!r}; got {_found(value)} of {shapes}")

    with jaxtyped("context"):
        for parameter in contract.axes & given.keys():
            if given[parameter] is not None:
                fits(_like((int(given[parameter]),)), parameter)
        for parameter, spec in contract.takes.items():
            value = given.get(parameter)
            if spec.startswith("*#b") and value is not None:
                shape = _shape(value)
                choices = spec.split(" | ")
                spec = "()" if shape == () and "()" in choices else "..." + choices[0][3:]
                leading.append(shape[: max(0, len(shape) - len(spec.split()) + 1)])
            compare(parameter, value, spec)
        if leading:
            fits(_like(np.broadcast_shapes(*leading)), "*b")
        for value, spec in zip(results, contract.returns, strict=True):
            compare("the result", value, spec)


def checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that compares what it was given and returns with its contract.

    Sizes that fitted once are not compared again: many tests call with the same.
    """
    contract, signature = contract_of(name, function), inspect.signature(function)
    fitted: set[tuple[Hashable, ...]] = set()

    @functools.wraps(function)
    def with_shapes(*args: Any, **kwargs: Any) -> Any:
        returned = function(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        sizes = contract.sizes(given, returned)
        if sizes not in fitted:
            check(name, contract, given, returned)
            fitted.add(sizes)
        return returned

    return with_shapes


def _replace(instead: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
    """Rebind every name and default of this project's loaded modules that is bound to a key."""

    def new(value: Any) -> Any:
        return instead.get(value, value) if inspect.isfunction(value) else value

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("reconrisk", "companion", "tests"):
            for key, value in list(vars(module).items()):
                if not inspect.isfunction(value):
                    continue
                if value in instead:
                    setattr(module, key, instead[value])
                if value.__defaults__:
                    value.__defaults__ = tuple(map(new, value.__defaults__))
                if value.__kwdefaults__:
                    value.__kwdefaults__ = {k: new(v) for k, v in value.__kwdefaults__.items()}


@pytest.fixture(scope="session", autouse=True)
def enforce() -> Iterator[None]:
    """Check the shapes of every public function of the rooms that the tests have loaded."""
    loaded = [room for room in ROOMS if f"reconrisk.{room}" in sys.modules]
    instead = {
        function: checked(name, function)
        for room in loaded
        for name, function in public_functions(room).items()
    }
    _replace(instead)
    yield
    _replace({new: old for old, new in instead.items()})
