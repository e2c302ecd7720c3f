"""Colours of attacks on two-layer networks."""

from companion.exhibit import *

__all__ = ["ATTACKS", "BLACK"]

#: label, colour and marker of a curve
Look = tuple[str, str, str]
ATTACKS: dict[str, Look] = {
    "tensor": ("tensor attack, as published", BLUE, "s"),
    "orders removed": ("low orders removed", GREEN, "^"),
    "least squares": ("least squares", ORANGE, "o"),
}
#: of the exact Cramer-Rao bound
BLACK = BOUND
