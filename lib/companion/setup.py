"""Says where the packages lie, this folder being one, and that the version is the library's."""

import runpy
from pathlib import Path

from setuptools import find_packages, setup

version = runpy.run_path(str(Path(__file__).resolve().parents[1] / "reconrisk" / "_version.py"))

setup(
    version=version["__version__"],
    packages=["companion", *(f"companion.{name}" for name in find_packages("."))],
    package_dir={"companion": "."},
    package_data={"companion.book": ["*.css"]},
)
