"""Colour and marker of every reconstruction from X_hat, the same in every picture."""

from companion.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

__all__ = ["STYLES"]

#: colour and marker by the name of the reconstruction
STYLES = {
    "X_hat": (GREY, "o"),
    "shrunken": (BLUE, "s"),
    "James-Stein": (PURPLE, "p"),
    "clipped to [0, 1]": (GREEN, "^"),
    "offset 1/2": (ORANGE, "v"),
    "offset 1/2, clipped": (SKY, "P"),
    "scaled direction": (RED, "*"),
}
