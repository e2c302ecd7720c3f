"""Packages whose names are imported on first use."""

import subprocess
import sys

import pytest

import reconrisk
from reconrisk import attacks, bounds

PACKAGES = [name for name in reconrisk.__all__ if hasattr(getattr(reconrisk, name), "__path__")]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_of_a_package_is_listed_and_loads(name):
    package = getattr(reconrisk, name)
    assert set(package.__all__) <= set(dir(package))
    assert all(hasattr(package, public) for public in package.__all__)


def test_public_modules_are_attributes_and_other_names_are_not():
    assert attacks.analytic.known_scale is attacks.known_scale
    with pytest.raises(AttributeError, match="'reconrisk.bounds' has no attribute 'nothing'"):
        bounds.nothing  # noqa: B018
    with pytest.raises(ImportError, match="nothing"):
        from reconrisk.bounds import nothing  # noqa: F401


def test_one_bound_loads_no_other():
    loaded = "import sys; from reconrisk.bounds import rero; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "reconrisk.bounds._rero" in modules and "reconrisk.bounds._mse" not in modules
