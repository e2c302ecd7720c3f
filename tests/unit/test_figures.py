"""Figures: every paper's figure is drawn, and drawing leaves the global style as it was.

Every drawing, caption and alternative text is tested on stored tables in tests/consistency.
"""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from companion import study, style
from companion.study import Tables, registry
from companion.study.records import FOLDER, read_tables


def test_every_paper_figure_is_drawn():
    known = study.all_exhibits()
    drawn = {e for e, exhibit in known.items() if exhibit.is_drawn}
    wanted = {
        e for e in known if registry.exhibit(e).kind == "figure" and registry.parent_of(e) == e
    }
    # what it shows is not known: an empty place in the text at hand
    assert wanted - drawn == {"biswas2024/figC_unreferenced"}


def test_a_figure_labels_its_axes_and_leaves_the_style_alone():
    before = dict(mpl.rcParams)
    exhibit = study.find_exhibit("mean_to_extreme/fig3")
    axes = exhibit.draw(read_tables(registry.project_root() / FOLDER / exhibit.id)).axes
    assert dict(mpl.rcParams) == before
    assert len(axes) == 6
    assert all(a.get_ylabel() or a.get_title() or a in axes[1::2] for a in axes)
    assert axes[4].get_xlabel() and axes[5].get_xlabel()


def test_what_has_no_picture_says_so():
    exhibit = study.find_exhibit("mean_to_extreme/prop2")
    assert not exhibit.is_drawn and exhibit.draw({}) is None


def test_a_figure_spells_as_the_pages_do():
    """Tables name their rows in plain words; a figure shows letters, also beside its ticks."""

    @style.drawing
    def draw(tables):
        figure, ((axis,),) = style.panels(1, 1)
        axis.plot([0, 1], label="noise, sigma = .5")
        axis.set_yticks([0, 1], ["pruning .9", r"$\kappa$"])
        axis.set_xlabel("Cramer-Rao")
        axis.legend()
        return figure

    axis = draw(Tables({})).axes[0]
    assert axis.get_legend().get_texts()[0].get_text() == "noise, $σ$ = 0.5"
    assert [label.get_text() for label in axis.get_yticklabels()] == ["pruning 0.9", r"$\kappa$"]
    assert axis.get_xlabel() == "Cramér–Rao"


#: how protanopes and deuteranopes see linear red, green and blue (Machado et al. 2009, table 1)
SEEN = {
    "all": np.eye(3),
    "protanopes": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopes": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
}  # fmt: skip


def linear(colour: str) -> np.ndarray:
    """Linear red, green and blue of a colour."""
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB coordinates of linear red, green and blue, under daylight (D65)."""
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ rgb.clip(0, 1) / (0.9505, 1.0, 1.089)  # fmt: skip
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("who", SEEN)
def test_every_two_colours_stay_apart(who):
    colours = [*style.COLOURS, style.GREY, style.BLACK]
    for one, other in itertools.combinations(colours, 2):
        distance = np.linalg.norm(lab(SEEN[who] @ linear(one)) - lab(SEEN[who] @ linear(other)))
        assert distance > 15, (one, other)


def test_every_colour_has_the_contrast_that_graphics_want():
    for colour in (*style.COLOURS, style.GREY):
        assert 1.05 / (linear(colour) @ (0.2126, 0.7152, 0.0722) + 0.05) >= 3, colour
