"""One folder a paper; one file an exhibit, or a family of exhibits; found by their names.

``COMPANION_PAPERS`` names further folders of papers, separated as in ``PATH``; they come first.

A family's file has a mapping ``EXHIBITS``: the name of each exhibit, and what it has of its own in
the place of what the file has for all. Each is imported as if it had a file of that name::

    EXHIBITS = {"lemC4": {}, "lemC5": {"SETTLES": ("E-E-23",)}}

    from companion.papers.liu2024 import lemC5

``measure`` and ``judge`` tell from ``study.exhibit`` and ``tables.exhibit`` which is asked for;
``measure`` becomes a :func:`~companion.exhibit.measurement` here.
"""

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

__path__[:0] = filter(None, os.environ.get("COMPANION_PAPERS", "").split(os.pathsep))


class _Families(MetaPathFinder, Loader):
    """Imports the exhibits of families, where there is no file of an exhibit's name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, exhibit = name.rpartition(".")
        if package.rpartition(".")[0] != __name__:
            return None
        for file, text in (family for folder in path or () for family in _read_families(folder)):
            if f'"{exhibit}"' in text:
                family = importlib.import_module(f"{package}.{file.stem}")
                if exhibit in family.EXHIBITS:
                    return importlib.util.spec_from_file_location(name, file, loader=self)
        return None

    def exec_module(self, module: ModuleType) -> None:
        from companion.exhibit import measurement  # heavy, and only needed where one is found

        package, _, exhibit = module.__name__.rpartition(".")
        family = importlib.import_module(f"{package}.{Path(str(module.__file__)).stem}")
        shared = {name: value for name, value in vars(family).items() if name[:2] != "__"}
        vars(module).update(shared | family.EXHIBITS[exhibit], FAMILY=family.__name__)
        vars(module)["measure"] = measurement(module.measure, module.__name__)


@functools.cache
def _read_families(folder: str) -> list[tuple[Path, str]]:
    """Return the families' files of a paper's folder, with their text."""
    texts = [(file, file.read_text(encoding="utf-8")) for file in sorted(Path(folder).glob("*.py"))]
    return [(file, text) for file, text in texts if "\nEXHIBITS = {" in text]


sys.meta_path.append(_Families())
