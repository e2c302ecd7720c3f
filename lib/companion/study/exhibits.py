"""An exhibit is one file: ``companion/papers/<paper>/<name>.py``.

The file holds ``PARAMETERS``, ``SETTLES``, ``measure(study) -> Tables``, ``judge(tables)`` and, if
there is a picture, ``draw(tables)``, ``CAPTION`` and ``alt(tables)``; ``SHOWN`` names tables that are
shown as such, ``PHOTOGRAPHS`` says that the paper profile reads a folder of photographs. Files are
found by their names: the id ``hayes2023/fig4`` is the module ``companion.papers.hayes2023.fig4``.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from companion.study import inputs, own_images, registry
from companion.study.parameters import Parameter
from companion.study.results import Result
from companion.study.tables import Tables
from companion.study.verdicts import Verdict, on_images, raise_failed
from reconrisk import datasets

if TYPE_CHECKING:
    from types import ModuleType

    from companion.study.computations import Computation, Context, Study

__all__ = ["described", "file_of", "id_of", "judged", "measurement", "stand_ins"]

_PAPERS = "companion.papers"


def id_of(module: ModuleType | str) -> str:
    """Return the id of the exhibit that a module holds."""
    name = module if isinstance(module, str) else module.__name__
    return "/".join(name.split(".")[-2:])


@functools.cache
def file_of(exhibit_id: str) -> ModuleType | None:
    """Import the file of an exhibit; None if there is none of that name."""
    name = f"{_PAPERS}.{exhibit_id.replace('/', '.')}"
    if exhibit_id not in registry.exhibits() or importlib.util.find_spec(name) is None:
        return None
    return importlib.import_module(name)


def targets_of(module: ModuleType) -> frozenset[str]:
    """Return what an exhibit settles: itself, and its panels (``_left``), claims and errata.

    Raises
    ------
    KeyError
        For an id that no CSV has.
    """
    exhibit = id_of(module)
    named = getattr(module, "SETTLES", ())
    targets = {exhibit} | {exhibit + t if t.startswith("_") else t for t in named}
    for target in targets:
        registry.place_of(target)
    return frozenset(targets)


def stand_ins(known: Computation, context: Context) -> tuple[str, ...]:
    """Return what takes the place of the paper's data in a run, by its parameters and data.

    A parameter that names a data set, or is marked ``stand_in``, has another value than the
    paper's; photographs are not ImageNet's; a user's images are read.
    """
    if context.own_images:
        return ("own images",)
    found = [
        f"{name} = {context.parameters[name]}"
        for name, p in known.parameters.items()
        if (p.stand_in or _names_data(p)) and context.parameters[name] != p.paper
    ]
    if known.photographs and context.stand_in:
        found.append("photographs other than ImageNet's")
    return tuple(found)


def _names_data(parameter: Parameter) -> bool:
    return isinstance(parameter.paper, str) and parameter.paper in datasets.CLASSIFIED


def measurement(function: Callable[[Any], Tables]) -> Callable[[Any], Tables]:
    """Decorate an exhibit's ``measure``: it takes a :class:`Study`, and gets its own context.

    Data are verified before anything is computed, overridden parameters are named in errors, and
    the tables carry the parameters they were measured with.
    """
    exhibit = id_of(function.__module__)

    @functools.wraps(function)
    def measure(study: Study | Context) -> Tables:
        from companion.study.computations import Context, blaming_parameters, computation

        context = study if isinstance(study, Context) else study.context(exhibit)
        known = computation(exhibit)
        inputs.verify(known, context)
        with blaming_parameters(known, context):
            tables = function(context)
        told = own_images.told(context) if context.own_images else ""
        return dataclasses.replace(
            tables,
            exhibit=exhibit,
            profile=context.profile,
            seed=context.seed,
            parameters=context.parameters,
            own_images=context.own_images,
            ran=" ".join(filter(None, [tables.ran, told])),
            stand_ins=(*stand_ins(known, context), *tables.stand_ins),
            shown=tuple(getattr(file_of(exhibit), "SHOWN", ())),
        )

    return measure


def judged(module: ModuleType, tables: Tables) -> tuple[Verdict, ...]:
    """Return the verdicts on an exhibit's tables, failed ones among them.

    Raises
    ------
    RuntimeError
        If a declared target got no verdict or an undeclared one did.
    """
    verdicts = tuple(module.judge(tables))
    targets, judged_targets = targets_of(module), {v.target for v in verdicts}
    if judged_targets != targets:
        raise RuntimeError(
            f"{id_of(module)}: no verdict for {sorted(targets - judged_targets)}, "
            f"undeclared verdicts for {sorted(judged_targets - targets)}"
        )
    return tuple(on_images(v) for v in verdicts) if tables.own_images else verdicts


def described(module: ModuleType, tables: Tables) -> dict[str, str]:
    """Return caption and alternative text of an exhibit's picture; empty if it has none."""
    if not hasattr(module, "draw"):
        return {}
    caption = module.CAPTION if hasattr(module, "CAPTION") else module.caption(tables)
    return {"caption": caption, "alt": module.alt(tables)}


def result_of(module: ModuleType, tables: Tables) -> Result:
    """Judge an exhibit's tables; what comes out otherwise than expected is *failed*."""
    return Result(
        id_of(module),
        judged(module, tables),
        tables,
        exact=tables.exact,
        shown=tables.shown,
        images=tables.images,
        ran=tables.ran,
        profile=tables.profile,
        seed=tables.seed,
        settings=dict(tables.parameters),
        description=described(module, tables),
        stand_ins=tuple(tables.stand_ins),
    )


def judge(module: ModuleType, tables: Tables) -> Result:
    """Judge an exhibit's tables, see :meth:`Study.judge`."""
    result = result_of(module, tables)
    raise_failed(result.verdicts)
    return result


def parameters_of(module: ModuleType) -> Mapping[str, Parameter]:
    """Return an exhibit's parameters."""
    return getattr(module, "PARAMETERS", {})
