"""How attacks on two-layer networks look in every picture."""

from companion.style import BLUE, GREEN, ORANGE

__all__ = ["ATTACKS", "BLACK"]

#: label, colour and marker of each attack
ATTACKS = {
    "tensor": ("tensor attack, as published", BLUE, "s"),
    "orders removed": ("low orders removed", GREEN, "^"),
    "least squares": ("least squares", ORANGE, "o"),
}
#: of the exact Cramer-Rao bound
BLACK = "#1A1A1A"
