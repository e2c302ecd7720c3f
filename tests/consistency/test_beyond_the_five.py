"""The page *Beyond the five*: six questions, each answered with a picture, and true numbers."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from companion.study.records import RECORDED
from companion.study.registry import project_root

PAGE = (project_root() / "book" / "papers" / "beyond_the_five.md").read_text(encoding="utf-8")
SECTIONS = PAGE.split("\n## ")[1:]


def stored(exhibit: str, table: str) -> pd.DataFrame:
    return pd.read_csv(project_root() / "tests" / "tables" / "beyond" / exhibit / f"{table}.csv")


def test_there_are_six_questions():
    assert len(SECTIONS) == 6


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.splitlines()[0])
def test_each_is_a_page_with_a_picture_and_says_what_changes(section):
    for part in ("**The question.**", "**What can be said.**", "**What it changes"):
        assert part in section
    assert "_figure_beyond-" in section and "prf:ref" in section
    assert 250 <= len(re.findall(r"\w+", re.sub(r"\{[^}]*\}`[^`]*`", "x", section))) <= 600


def test_shuffled_epsilons_are_as_many_times_poisson_s_as_it_says():
    settings = stored("samplers", "settings").set_index(["setting", "sampler"])
    low = settings["epsilon, from"].unstack()["shuffle"]
    factor = low / settings["epsilon, to"].unstack()["poisson"]
    assert "already twice to nine times as" in PAGE
    assert factor.min() > 2 and 9 < factor.max() < 10


def test_what_attackers_of_a_run_leave_of_the_mean_image_s_error():
    pairs = pd.read_csv(project_root() / RECORDED / "beyond" / "prior_on_run" / "pairs.csv")
    left = pairs.query("other == 'mean image'").set_index(["one", "epsilon"])["ratio"]
    assert "leaves 43% of the mean image's" in PAGE
    assert round(left["denoiser", 100.0], 2) == 0.43
    assert left["denoiser", 10.0] > 0.9
    assert left["list with it", 100.0] < 0.01
    ratio = pairs.query("other == 'mean of the label'").set_index(["one", "epsilon"])["ratio"]
    assert "At 10 nobody\ngains more than 13% on it" in PAGE
    assert round(ratio["list with it", 10.0], 2) == 0.87
    assert round(ratio["covariance of the label", 10.0], 2) == 0.94
    assert ratio["denoiser", 10.0] > 1.15
    assert "and a filter with the label's covariance as much as the denoiser" in PAGE
    assert abs(ratio["covariance of the label", 100.0] / ratio["denoiser", 100.0] - 1) < 0.05


def test_remainders_say_nothing_and_closed_forms_too_little():
    found = stored("right_notion", "summaries")
    little = found[found["sigma"] <= 1]
    assert (found["remainder"] > 1).all()
    assert (found["closed form"] < found["variation"]).all()
    assert (little["attribute, closed form"] < little["attribute"]).all()
