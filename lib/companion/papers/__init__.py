"""One folder a paper; one file an exhibit, or a family of exhibits; found by their names.

``COMPANION_PAPERS`` names further folders of papers, separated as in ``PATH``; they come first.

A family's file names its exhibits in ``EXHIBITS``; each is imported as if it had its own file::

    EXHIBITS = ("lemC4", "lemC5")
    SETTLES_LEMC5 = ("E-E-23",)

    from companion.papers.liu2024 import lemC5  # whose SETTLES is that

What ends in an exhibit's name, in capitals or small letters, is its own: ``measure_lemc5``,
``ALTERED_LEMC5``. What does not is there for all: a common ``measure`` and ``judge`` tell from
``study.exhibit`` and ``tables.exhibit`` which is asked for. What measures is made a
:func:`~companion.exhibit.measurement` here.
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
        for file in (found for folder in path or () for found in find_families(folder, exhibit)):
            family = importlib.import_module(f"{package}.{file.stem}")
            if exhibit in family.EXHIBITS:
                return importlib.util.spec_from_file_location(name, file, loader=self)
        return None

    def exec_module(self, module: ModuleType) -> None:
        from companion.exhibit import measurement  # heavy, and only needed where one is found

        package, _, exhibit = module.__name__.rpartition(".")
        family = importlib.import_module(f"{package}.{Path(str(module.__file__)).stem}")
        shared = {name: value for name, value in vars(family).items() if name[:2] != "__"}
        endings = (f"_{exhibit.lower()}", f"_{exhibit.upper()}")
        own = {name[: -len(endings[0])]: shared[name] for name in shared if name.endswith(endings)}
        vars(module).update(shared | own, FAMILY=family.__name__)
        vars(module)["measure"] = measurement(module.measure, module.__name__)


def find_families(folder: str, exhibit: str) -> list[Path]:
    """Return the files of a paper's folder whose text names an exhibit as a family's."""
    return [file for file, text in _read_families(folder) if f'"{exhibit}"' in text]


@functools.cache
def _read_families(folder: str) -> list[tuple[Path, str]]:
    """Return the families' files of a paper's folder, with their text."""
    texts = [(file, file.read_text(encoding="utf-8")) for file in sorted(Path(folder).glob("*.py"))]
    return [(file, text) for file, text in texts if "\nEXHIBITS = (" in text]


sys.meta_path.append(_Families())
