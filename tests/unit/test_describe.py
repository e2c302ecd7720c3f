"""Alternative text read off known figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from altered_tables import altered, stored
from companion.describe import describe
from companion.study import all_exhibits, find_exhibit
from companion.study.tables import Tables
from companion.style import BLACK, BLUE, ORANGE, drawing, legend_above, legend_line, panels


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


def test_a_line_is_told_by_its_ends_and_where_it_turns():
    figure, [[axes]] = panels(1, 1)
    axes.plot([1, 2, 3], [0.1, 0.5, 0.9], label=r"$\sigma = 1$")
    axes.plot([3, 1, 2], [0.2, 0.2, 0.95], label="w/o noise")
    axes.plot([1, 2, 3], [0.4, 0.4, 0.4], label="flat")
    axes.axhline(0.7, label="chance")
    axes.set(xlabel=r"$\varepsilon$ at $\delta = 10^{-5}$", ylabel="a/b", xscale="log")
    assert describe(figure) == (
        "a over b against epsilon at delta = 10^-5 (log) from 1 to 3: sigma = 1 from 0.1 to 0.9; "
        "without noise from 0.2 to 0.2, highest 0.95 at 2; flat level at 0.4; "
        "chance, horizontal line at 0.7."
    )


def test_what_a_legend_above_names_is_named_by_its_look():
    figure, [[left, right]] = panels(1, 2)
    for axes in (left, right):
        axes.plot([0, 1], [0, 1], color=BLUE)
        axes.plot([0, 1], [0, 2], color=BLUE, linestyle="--")
        axes.plot([0, 1], [2, 0], color=ORANGE)
    entries = [legend_line("Gaussian", BLUE), legend_line("VMF", ORANGE)]
    legend_above(figure, [*entries, legend_line("bound", BLACK, "--")], 3)
    text = "Gaussian from 0 to 1; Gaussian, bound from 0 to 2; VMF from 2 to 0."
    assert describe(figure).count(text) == 2


def test_categories_are_listed_with_their_bars_and_points():
    figure, [[axes]] = panels(1, 1)
    axes.bar([0, 1], [0.25, 3], label="error")
    axes.errorbar([0, 1], [0.3, 2], yerr=0.1, linestyle="", marker="o", label="measured")
    axes.set_xticks([0, 1], ["none", "noise"])
    text = describe(figure)
    assert "error 0.25 (none), 3 (noise)" in text and "measured 0.3 (none), 2 (noise)" in text
    assert text.endswith("Points have error bars.")


def test_pictures_are_counted_and_heat_maps_have_their_range():
    figure, [[photograph, heat]] = panels(1, 2)
    photograph.imshow(np.zeros((4, 4, 3)))
    photograph.set(xticks=[], yticks=[], title="original")
    heat.imshow([[0.0, 0.5], [1.0, np.nan]])
    heat.set_xticks([0, 1], ["a", "b"])
    heat.set_yticks([0, 1], ["c", "d"])
    text = describe(figure)
    assert text.startswith("1 picture: original.")
    assert "heat map of c; d by a; b, values between 0 and 1." in text and "nan" not in text


def test_many_panels_and_series_are_put_together():
    figure, rows = panels(3, 4)
    for number, axes in enumerate(a for row in rows for a in row):
        for series in range(9):
            axes.plot([1, 2], [series, series + number], label=f"series {series}")
        axes.set(title=f"N = {number}", xlabel="x", ylabel="y")
    text = describe(figure)
    assert len(text.split()) <= 120 and text.startswith("12 panels. N = 0; N = 1;")
    assert "in the last from 0 to 11" in text and "all between 0 and 19" in text


def test_tables_just_drawn_are_described_without_drawing_them_again():
    drawn = []

    @drawing
    def draw(tables):
        drawn.append(tables)
        figure, [[axes]] = panels(1, 1)
        axes.plot([0, 1], tables["t"]["y"], label="y")
        return figure

    tables, other = (Tables({"t": pd.DataFrame({"y": [0.0, y]})}) for y in (1.0, 2.0))
    draw(tables)
    assert draw.describe(tables) == draw.describe(tables) and len(drawn) == 1
    assert "y from 0 to 2" in draw.describe(other) and len(drawn) == 2


#: photographs, of which the words by hand give no measured number, or one beside the noise's size
WITHOUT = {
    *("beyond/bit_layer", "liu2024/fig1", "mean_to_extreme/fig1", "mean_to_extreme/fig5"),
    *("ziller2024/fig6", "ziller2024/fig7", "ziller2024/fig8"),
}
BY_HAND = {e for e in all_exhibits() if hasattr(find_exhibit(e).file, "alt")}


@pytest.mark.parametrize("exhibit", sorted(BY_HAND - WITHOUT))
def test_words_by_hand_follow_their_tables(exhibit):
    def shrink(table):
        return table.assign(**{c: 0.37 * table[c] for c in table.select_dtypes("float64")})

    alt, tables = find_exhibit(exhibit).file.alt, stored(exhibit)
    assert alt(altered(tables, dict.fromkeys(tables, shrink))) != alt(tables)
