"""The sources that code rests on, read without running them.

A result's record names every file that its module imports (:func:`source_files`). A stored task of
a sweep carries one hash of the code that can change its result (:func:`code_stamp`): its file and
those it imports, without comments, docstrings, layout and what only judges and draws. So a
corrected docstring or a sharper verdict does not throw away hours of finished tasks, and a changed
formula does.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
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

#: our packages, which stand side by side
PACKAGES = ("reconrisk", "companion")
#: of the companion's machinery a task can depend on the data alone. A change elsewhere in it must
#: not throw away finished tasks; what it does to a result shows when the result is assembled from
#: them, and parameter values are in the tasks themselves.
_IN_TASKS = ("reconrisk.datasets",)
_NOT_IN_TASKS = ("companion.study", "companion.style", "companion.book", "companion.cli")


def source_files(module: str) -> dict[str, Path]:
    """Return the sources a module rests on, by module name, itself and parent packages included.

    Imports are read from the syntax tree, wherever in a file they stand; only those within
    our packages are followed. Modules that are imported by a computed name are not seen.
    """
    return _closure(module, parents=True)


def code_stamp(function: Callable[..., Any]) -> str:
    """Return one hash of the code that a task's function can run, the study machinery left out.

    The function's file and every file of ours that it imports, whole, but for comments, docstrings,
    layout, and what only judges and draws.
    """
    files = _closure(function.__module__, parents=False)
    text = "\n".join(
        f"{name}\n{_normalised(path, path.stat().st_mtime_ns, name.startswith(_EXHIBITS))}"
        for name, path in files.items()
        if counts_in_tasks(name)
    )
    return hashlib.sha256(text.encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the hash of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def package_folder() -> Path:
    """Return the folder that holds our packages' sources."""
    return Path(__file__).resolve().parents[2]


def source(module: str) -> Path | None:
    """Return the file of a module; only modules outside the package need be importable."""
    head, *rest = module.split(".")
    if head not in PACKAGES:
        with contextlib.suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(module)
            if spec is not None and spec.origin and spec.origin.endswith(".py"):
                return Path(spec.origin)
        origin = getattr(sys.modules.get(module), "__file__", None)
        return Path(origin) if origin and origin.endswith(".py") else None
    base = package_folder().joinpath(head, *rest)
    bases = [base]
    if (head, *rest[:1]) == ("companion", "papers"):  # papers may lie outside the checkout
        folders = importlib.import_module("companion.papers").__path__
        bases = [*(Path(folder).joinpath(*rest[1:]) for folder in folders if rest[1:]), base]
    for base in bases:
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
        if parents and "." in name and _is_ours(name):
            waiting.append(name.rpartition(".")[0])
        waiting.extend(_imports(name, path, path.stat().st_mtime_ns))
    return dict(sorted(found.items()))


@functools.lru_cache(maxsize=1024)
def _imports(module: str, path: Path, changed: int) -> frozenset[str]:
    """The names of modules of ours that a file imports (``changed`` is part of the key)."""
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
    return name.partition(".")[0] in PACKAGES


@functools.lru_cache(maxsize=1024)
def _tree(path: Path, changed: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


# What a task's code is ----------------------------------------------------------------------------

_EXHIBITS = "companion.papers."
#: what an exhibit's file holds besides its experiment: a change of it changes no stored task
_JUDGES_AND_DRAWS = frozenset(
    {"judge", "draw", "alt", "caption", "CAPTION", "SETTLES", "SHOWN", "FALSIFIERS"}
)


def counts_in_tasks(module: str) -> bool:
    """Return whether a change of a module can change what a task gives."""
    inside = f"{module}.".startswith
    if any(inside(f"{name}.") for name in _IN_TASKS):
        return True
    return not any(inside(f"{name}.") for name in _NOT_IN_TASKS)


@functools.lru_cache(maxsize=1024)
def _normalised(path: Path, changed: int, exhibit: bool) -> str:
    left_out = _JUDGES_AND_DRAWS if exhibit else frozenset()
    kept = [s for s in _tree(path, changed).body if not (_bound(s) & left_out)]
    return "\n".join(_plain(statement) for statement in kept)


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return {
            n.id
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
    return set()


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
