"""The source files that a result depends on, found without running them.

A result's record names every file that its module imports (:func:`source_files`). A stored task of
a sweep carries one hash of the code that can change its result (:func:`code_stamp`): its file and
those it imports, without comments, docstrings, layout, judging and drawing. So a changed formula
invalidates finished tasks; a corrected docstring or a sharper verdict does not.
"""

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: our packages, in one folder
PACKAGES = ("reconrisk", "companion")
#: what no task depends on: a change of the companion's machinery, or of how it looks at a folder of
#: data, must not invalidate finished tasks. It acts on a result when that is assembled from them,
#: and parameter values are in the tasks themselves.
_NOT_IN_TASKS = (
    *("companion.study", "companion.style", "companion.describe", "companion.exhibit"),
    *("companion.book", "companion.cli", "reconrisk.datasets.files"),
)


def source_files(module: str) -> dict[str, Path]:
    """Return the sources that a module depends on, by module name.

    They include the module itself and its parent packages. Imports are read from the syntax tree,
    anywhere in a file, and only within our packages. Imports by a computed name are not found.
    """
    return _closure(module, parents=True)


def files_reached(path: Path, *others: str) -> dict[str, Path]:
    """Return our sources that a file outside our packages imports, with those of other modules."""
    return _closure(*_imports("", path, path.stat().st_mtime_ns), *others, parents=True)


def code_stamp(function: Callable[..., Any]) -> str:
    """Return one hash of the code that a task's function can run, without the study machinery.

    It covers the function's file and every file of ours that it imports, except for comments,
    docstrings, layout, judging and drawing.
    """
    files = _closure(function.__module__, parents=False)
    text = "\n".join(
        f"{name}\n{_normalise(path, path.stat().st_mtime_ns, name.startswith(_EXHIBITS))}"
        for name, path in files.items()
        if counts_in_tasks(name)
    )
    return hashlib.sha256(text.encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@functools.cache
def package_folder() -> Path:
    """Return the folder that holds our packages' sources."""
    return Path(__file__).resolve().parents[2]


def source(module: str) -> Path | None:
    """Return the file of a module, None if it has none; ours need not be importable."""
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
    """Return ``a.b.c`` of an attribute chain, for modules that are reached as attributes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""


def _closure(*modules: str, parents: bool) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found or not (path := source(name)):
            continue
        found[name] = path
        if parents and "." in name and _is_ours(name):
            waiting.append(name.rpartition(".")[0])
        waiting.extend(_imports(name, path, path.stat().st_mtime_ns))
    return dict(sorted(found.items()))


@functools.lru_cache(maxsize=1024)
def _imports(module: str, path: Path, changed: int) -> frozenset[str]:
    """Return the modules of ours that a file imports (``changed`` is part of the cache's key)."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    tree, whole = _tree(path), set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            whole |= {name for a in node.names for name in (a.name, a.name.rpartition(".")[0])}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: package.count(".") + 2 - node.level]
                base = ".".join([*anchor, *filter(None, [base])])
            # an imported name may be a module itself; other names have no file
            names |= {base, *(f"{base}.{a.name}" for a in node.names)}
    if any(map(_is_ours, whole)):  # modules may be reached as attributes
        names |= {dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return frozenset(filter(source, filter(_is_ours, names | whole)))


def _statements(part: ast.AST) -> Iterator[ast.AST]:
    """Yield what can hold an import: statements, at any depth, but no expressions."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(part, field, ()):
            yield statement
            yield from _statements(statement)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def _tree(path: Path) -> ast.Module:
    # not kept: the garbage collector would go through a hundred trees again and again
    return ast.parse(path.read_bytes(), str(path))


# The code of a task -------------------------------------------------------------------------------

_EXHIBITS = "companion.papers."
#: names in an exhibit's file that no stored task depends on
_JUDGES_AND_DRAWS = frozenset(
    {"judge", "draw", "alt", "caption", "CAPTION", "SETTLES", "SHOWN", "THUMBNAIL"}
    | {"beside_print", "ALTERED", "CELLS", "SCENARIOS"}
)


def counts_in_tasks(module: str) -> bool:
    """Return whether a change of a module can change the result of a task."""
    return not f"{module}.".startswith(tuple(f"{name}." for name in _NOT_IN_TASKS))


@functools.lru_cache(maxsize=1024)
def _normalise(path: Path, changed: int, exhibit: bool) -> str:
    body = _tree(path).body
    left_out = _judges_and_draws(body) if exhibit else frozenset()
    kept = [s for s in body if not (_bound(s) & left_out)]
    return "\n".join("" if _is_string(s) else _code_only(s) for s in kept)


def _judges_and_draws(body: list[ast.stmt]) -> frozenset[str]:
    """Return the names that no task depends on, of a family's exhibits too (``judge_lemc5``)."""
    if not any("EXHIBITS" in _bound(s) for s in body):
        return _JUDGES_AND_DRAWS
    strings = (n.value for s in body for n in ast.walk(s) if isinstance(n, ast.Constant))
    exhibits = {s.lower() for s in strings if isinstance(s, str) and s.isidentifier()}
    own = {f"{name}_{e}" for name in _JUDGES_AND_DRAWS for e in exhibits}
    return _JUDGES_AND_DRAWS | own | {name.upper() for name in own}


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return {
            n.id
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
    return set()


def _code_only(statement: ast.stmt) -> str:
    """Return a statement's source without comments, docstrings and layout; changes its tree."""
    return ast.unparse(_WithoutDocstrings().visit(statement))


class _WithoutDocstrings(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [s for s in body if not _is_string(s)]
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                kept = kept or [ast.Pass()]
            node.body = kept  # type: ignore[attr-defined]
        return node


def _is_string(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
