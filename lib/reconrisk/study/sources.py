"""The sources that code rests on, read without running them.

A result's record names every file that its module imports (:func:`source_files`). A stored task of
a sweep carries one hash of the code that can change its result (:func:`code_stamp`): of the
experiment modules the definitions its function reaches, of the library the modules it imports, all
without comments, docstrings and layout. So a corrected docstring or a sharper verdict does not
throw away hours of finished tasks, and a changed formula does.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "code_stamp",
    "counts_in_tasks",
    "dotted",
    "package_folder",
    "sha256",
    "source",
    "source_files",
]

PACKAGE = "reconrisk"
#: of the study machinery a task can depend on these alone. A change elsewhere in it must not throw
#: away finished tasks; what it does to a result shows when the result is assembled from them, and
#: parameter values are in the tasks themselves.
_STUDY = f"{PACKAGE}.study"
_IN_TASKS = (f"{_STUDY}.datasets", f"{_STUDY}.experiments")
#: modules of which a task takes single functions: they also assemble and judge results
_TAKEN_APART = f"{_STUDY}.experiments"


def source_files(module: str) -> dict[str, Path]:
    """Return the sources a module rests on, by module name, itself and parent packages included.

    Imports are read from the syntax tree, wherever in a file they stand; only those within
    ``reconrisk`` are followed. Modules that are imported by a computed name are not seen.
    """
    return _closure(module, parents=True)


def code_stamp(function: Callable[..., Any]) -> str:
    """Return one hash of the code that a function runs, the study machinery left out.

    Equal after changes of comments, docstrings and layout, and of those parts of the experiment
    modules that the function does not reach.
    """
    parts = dict(_reached(function.__module__, function.__qualname__.partition(".")[0]))
    text = "\n".join(f"{name}\n{body}" for name, body in sorted(parts.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the hash of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def package_folder() -> Path:
    """Return the folder of the package's sources."""
    return Path(__file__).resolve().parents[1]


def source(module: str) -> Path | None:
    """Return the file of a module; only modules outside the package need be importable."""
    head, *rest = module.split(".")
    if head != PACKAGE:
        with contextlib.suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(module)
            if spec is not None and spec.origin and spec.origin.endswith(".py"):
                return Path(spec.origin)
        origin = getattr(sys.modules.get(module), "__file__", None)
        return Path(origin) if origin and origin.endswith(".py") else None
    base = package_folder().joinpath(*rest)
    for path in (base / "__init__.py", base.with_name(base.name + ".py")):
        if path.is_file():
            return path
    return None


def dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` of an attribute chain, for rooms that are reached as attributes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""


def _closure(module: str, *, parents: bool) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = source(name)
        if name in found or path is None:
            continue
        found[name] = path
        if parents and name.startswith(f"{PACKAGE}."):
            waiting.append(name.rpartition(".")[0])
        waiting.extend(_imports(name, path, path.stat().st_mtime_ns))
    return dict(sorted(found.items()))


@functools.lru_cache(maxsize=1024)
def _imports(module: str, path: Path, changed: int) -> frozenset[str]:
    """The names of ``reconrisk`` modules that a file imports (``changed`` is part of the key)."""
    tree = _tree(path, changed)
    return frozenset(
        name
        for node in ast.walk(tree)
        for name in (
            {dotted(node)}
            if isinstance(node, ast.Attribute)
            else set(_imported(node, _package_of(module, path)).values())
            | {n.rpartition(".")[0] for n in _imported(node, _package_of(module, path)).values()}
        )
        if _is_ours(name)
    )


def _imported(node: ast.AST, package: str) -> dict[str, str]:
    """What an import statement binds: the local name, and the full name it stands for."""
    if isinstance(node, ast.Import):
        return {(a.asname or a.name.partition(".")[0]): a.name for a in node.names}
    if not isinstance(node, ast.ImportFrom):
        return {}
    base = node.module or ""
    if node.level:
        anchor = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*anchor, *filter(None, [base])])
    # what is imported may be a module itself; names that are none have no file
    return {(a.asname or a.name): f"{base}.{a.name}" for a in node.names}


def _package_of(module: str, path: Path) -> str:
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def _is_ours(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


@functools.lru_cache(maxsize=1024)
def _tree(path: Path, changed: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


# What one function reaches -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Module:
    """A module's top level: what each name is bound by, and what imports stand for."""

    definitions: dict[str, tuple[ast.stmt, ...]]
    imports: dict[str, str]


@functools.lru_cache(maxsize=1024)
def _top_level(module: str, path: Path, changed: int) -> _Module:
    definitions: dict[str, tuple[ast.stmt, ...]] = {}
    imports: dict[str, str] = {}
    for statement in _statements(_tree(path, changed).body):
        imports |= _imported(statement, _package_of(module, path))
        for name in _bound(statement):
            definitions[name] = (*definitions.get(name, ()), statement)
    return _Module(definitions, imports)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module's top level, those under ``if`` and ``try`` included."""
    for statement in body:
        yield statement
        for inner in ("body", "orelse", "finalbody"):
            if isinstance(statement, ast.If | ast.Try | ast.With):
                yield from _statements(getattr(statement, inner, []))


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return {
            n.id
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
    return set()


def _reached(module: str, name: str) -> Iterator[tuple[str, str]]:
    """The code a module's ``name`` runs: (module or module.name, normalised source)."""
    seen: set[tuple[str, str]] = set()
    waiting = [(module, name)]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        where, what = here
        path = source(where)
        if path is None:
            continue
        if not (where == module or where.startswith(f"{_TAKEN_APART}.")):
            for other, file in _closure(where, parents=False).items():
                if counts_in_tasks(other):
                    yield other, _normalised(file, file.stat().st_mtime_ns)
            continue
        top = _top_level(where, path, path.stat().st_mtime_ns)
        for statement in top.definitions.get(what, ()):
            yield f"{where}.{what} at {statement.col_offset}", _plain(statement)
            used = _used(statement)
            waiting += [(where, n) for n in used if n in top.definitions]
            targets = [top.imports[n] for n in used if n in top.imports]
            for node in ast.walk(statement):
                targets += _imported(node, _package_of(where, path)).values()
                if isinstance(node, ast.Attribute):
                    head, _, rest = dotted(node).partition(".")
                    if head in top.imports and rest:
                        targets.append(f"{top.imports[head]}.{rest}")
            waiting += [step for target in targets for step in _steps(target)]


def _used(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}


def _steps(target: str) -> list[tuple[str, str]]:
    """Where an imported name leads: the longest prefix that is a module of ours, and the rest."""
    if not _is_ours(target):
        return []
    parts = target.split(".")
    for cut in range(len(parts), 1, -1):
        name = ".".join(parts[:cut])
        if source(name) is not None:
            return [(name, parts[cut] if cut < len(parts) else "")] if counts_in_tasks(name) else []
    return [(PACKAGE, parts[1])] if len(parts) > 1 else []


def counts_in_tasks(module: str) -> bool:
    """Return whether a change of a module can change what a task gives."""
    inside = f"{module}.".startswith
    return not inside(f"{_STUDY}.") or any(inside(f"{name}.") for name in _IN_TASKS)


@functools.lru_cache(maxsize=1024)
def _normalised(path: Path, changed: int) -> str:
    return "\n".join(_plain(statement) for statement in _tree(path, changed).body)


def _plain(statement: ast.stmt) -> str:
    """A statement's source without comments, docstrings and layout."""
    return ast.unparse(_WithoutDocstrings().visit(ast.parse(ast.unparse(statement))))


class _WithoutDocstrings(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [s for s in body if not _is_text(s)]
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                kept = kept or [ast.Pass()]
            node.body = kept  # type: ignore[attr-defined]
        return node


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
