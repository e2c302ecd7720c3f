"""The open challenge: what entries score, and which are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from companion import challenge
from companion.challenge import Entry, load_entry, score, summary
from companion.cli.app import app
from companion.study import registry

ENTRIES = registry.project_root() / "templates" / "challenge"


def scored(entry: Entry, *noises: float, **options) -> list[challenge.Score]:
    return list(score(entry, data="synthetic", noises=noises, **options))


@pytest.mark.parametrize("file", sorted(p.name for p in ENTRIES.glob("*.py")))
def test_our_entries_stay_between_the_constant_and_what_is_possible(file: str):
    for found in scored(load_entry(ENTRIES / file), 0.05, 0.2, trials=200):
        if not np.isnan(found.named):
            assert found.low <= found.named <= found.high and found.low <= found.bound
        assert np.isnan(found.error) or found.error >= found.floor


def test_the_ladder_of_entries():
    files = ("guess.py", "shrink.py", "wiener.py")
    at = {f: scored(load_entry(ENTRIES / f), 0.05, trials=300)[0] for f in files}
    assert at["wiener.py"].error < at["shrink.py"].error < at["guess.py"].error
    assert at["guess.py"].removed == pytest.approx(0, abs=1e-12)
    named = scored(load_entry(ENTRIES / "nearest.py"), 0.05, trials=300)[0].named
    assert named > 0.97


def test_guessing_names_one_in_a_thousand():
    found = scored(load_entry(ENTRIES / "guess.py"), 0.5, trials=1000)[0]
    assert found.low <= 1 / 1000 <= found.high
    assert found.bound == pytest.approx(stats.norm.cdf(stats.norm.ppf(1 / 1000) + 2), rel=1e-3)


def test_the_same_seed_draws_the_same():
    entry = load_entry(ENTRIES / "nearest.py")
    assert scored(entry, 0.2, trials=50) == scored(entry, 0.2, trials=50)
    assert scored(entry, 0.2, trials=50) != scored(entry, 0.2, trials=50, seed=1)


def test_an_entry_that_names_more_than_is_possible_has_seen_the_answers():
    def peek(releases, sigma, candidates):
        return np.random.default_rng([20231, 0, 0]).integers(len(candidates), size=len(releases))

    with pytest.raises(ValueError, match="name found 100 of 100 records at sigma = 1, where no"):
        scored(Entry("peek", name=peek), 1.0, trials=100)


def test_summary_counts_what_is_worse_than_a_constant_as_nothing():
    one = challenge.Score(0.1, 0.5, 0.4, 0.6, 1.0, 0.2, 0.1, 0.0)
    two = challenge.Score(0.2, 0.1, 0.0, 0.2, 0.5, 0.05, 0.1, 0.0)
    assert one.removed == -1 and two.removed == 0.5
    assert summary([one, two]) == (0.35, 0.25)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "must define a function name or rebuild"),
        ("def name(r, s, c): return [0]", r"name must return finite numbers of shape \(20,\)"),
        ("def name(r, s, c): return [-1] * len(r)", "positions from 0 to 999"),
        ("def rebuild(r, s, o): return r * float('nan')", "rebuild must return finite numbers"),
    ],
)
def test_what_is_refused(tmp_path: Path, code: str, message: str):
    (tmp_path / "entry.py").write_text(code)
    with pytest.raises(ValueError, match=message):
        scored(load_entry(tmp_path / "entry.py"), 0.5, trials=20)
    with pytest.raises(FileNotFoundError, match="there is none at"):
        load_entry(tmp_path / "other.py")


def test_the_command(tmp_path: Path):
    run = CliRunner().invoke
    printed = run(app, ["challenge", "example"])
    assert printed.exit_code == 0
    (tmp_path / "mine.py").write_text(printed.stdout)
    options = ["challenge", "score", str(tmp_path / "mine.py"), "--data", "synthetic"]
    shown = run(app, [*options, "--trials", "50"])
    assert shown.exit_code == 0 and "of the bound on naming" in shown.stdout
    data = json.loads(run(app, [*options, "--trials", "50", "--json"]).stdout)
    assert [row["sigma"] for row in data["noises"]] == list(challenge.NOISES)
    assert data["noises"][0]["named"] == 1.0
    wrong = run(app, [*options, "--trials", "50000"])
    assert wrong.exit_code == 2 and "trials" in wrong.stderr
