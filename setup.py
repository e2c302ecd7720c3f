"""Lets the papers' numbers travel with the package; everything else is in pyproject.toml."""

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithData(build_py):
    """Copies the CSV files beside the package, where ``registry.project_root`` looks last.

    An editable installation reads those of the checkout.
    """

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for folder in ("data/paper", "data/companion"):
                self.copy_tree(folder, f"{self.build_lib}/reconrisk/_shipped/{folder}")


setup(cmdclass={"build_py": BuildWithData})
