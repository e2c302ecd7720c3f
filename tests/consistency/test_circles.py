"""No module imports one that imports it, not even for types or inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from companion.study import registry

LIB = registry.project_root() / "lib"


def read_modules() -> dict[str, Path]:
    """Return the file of every module of both packages; of a package, its ``__init__.py``."""
    found = {}
    for path in LIB.rglob("*.py"):
        parts = path.relative_to(LIB).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def find_imports(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a file names in its import statements, wherever they stand."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"{path}: relative imports are not followed"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def find_circles(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return, for each node that can be reached from itself, the others of its circles."""
    reached = {}
    for start in edges:
        found, ahead = set(), [start]
        while ahead:
            new = edges.get(ahead.pop(), set()) - found
            found |= new
            ahead += new
        reached[start] = found
    return {
        name: {other for other in found if name in reached.get(other, ())}
        for name, found in reached.items()
        if name in found
    }


def test_circles_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set(), "f": {"f", "a"}}
    assert find_circles(edges) == {**dict.fromkeys("abc", set("abc")), "f": {"f"}}


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(
        "import p.a, os\nif TYPE_CHECKING:\n    from p import b, name\n"
        "def f():\n    from p.c import d as e\n"
    )
    assert list(find_imports(file, dict.fromkeys(("p", "p.a", "p.b", "p.c")))) == [
        "p.a", "p.b", "p", "p.c",
    ]  # fmt: skip


def test_no_module_imports_in_a_circle() -> None:
    modules = read_modules()
    circles = find_circles(
        {name: {*find_imports(path, modules)} - {name} for name, path in modules.items()}
    )
    assert not circles, f"modules that import each other: {circles}"
