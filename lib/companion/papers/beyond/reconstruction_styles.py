"""Colour and marker of every reconstruction from X_hat, the same in every picture."""

from companion.style import BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE

__all__ = ["STYLES"]

_, _, _, _, _SKY, _RED = COLOURS

#: colour and marker by the name of the reconstruction
STYLES = {
    "X_hat": (GREY, "o"),
    "shrunken": (BLUE, "s"),
    "James-Stein": (PURPLE, "D"),
    "clipped to [0, 1]": (GREEN, "^"),
    "offset 1/2": (ORANGE, "v"),
    "offset 1/2, clipped": (_SKY, "P"),
    "scaled direction": (_RED, "*"),
}
