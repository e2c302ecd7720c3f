"""Says where the packages lie: this folder is the package; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=["companion", *(f"companion.{name}" for name in find_packages("."))],
    package_dir={"companion": "."},
    package_data={"companion.book": ["*.css"]},
)
