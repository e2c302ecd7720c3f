"""Every property test is a test of shapes too."""

from shapes import enforce  # noqa: F401
