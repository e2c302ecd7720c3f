"""The open challenge: what entries score, which are refused, and what cheating gains."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from companion import challenge
from companion.challenge import load_entry, score, summary
from companion.cli.app import app
from companion.study import registry

ENTRIES = registry.project_root() / "templates" / "challenge"


#: the candidates of seed 2, by somebody who knows it
DRAWN = "np.random.default_rng(2).uniform(size=(5000, 64))[4000:]"


def scored(path: Path, *noises: float, data: str = "synthetic", **options):
    return list(score(load_entry(path), data=data, noises=noises, **options))


@pytest.fixture
def written(tmp_path: Path):
    """Write an entry's code into a file."""

    def write(code: str) -> Path:
        path = tmp_path / "entry.py"
        path.write_text(code)
        return path

    return write


@pytest.mark.parametrize("file", sorted(p.name for p in ENTRIES.glob("*.py")))
def test_our_entries_score_on_secret_draws_what_the_page_shows(file: str):
    # an entry that knows the page's seed would not
    shown, secret = (
        scored(ENTRIES / file, *challenge.NOISES[:3], data="MNIST", seed=seed) for seed in (0, None)
    )
    for found in (*shown, *secret):
        assert np.isnan(found.named) or 0 <= found.named <= found.likeliest
        assert np.isnan(found.error) or found.error >= found.floor
    assert summary(secret) == pytest.approx(summary(shown), abs=0.1, nan_ok=True)


def test_the_ladder_of_entries():
    files = ("guess.py", "shrink.py", "wiener.py")
    at = {f: scored(ENTRIES / f, 0.05, trials=300)[0] for f in files}
    assert at["wiener.py"].error < at["shrink.py"].error < at["guess.py"].error
    assert -0.02 < at["guess.py"].removed <= 0
    assert scored(ENTRIES / "nearest.py", 0.05, trials=300)[0].named > 0.97


def test_guessing_names_one_in_a_thousand():
    found = scored(ENTRIES / "guess.py", 5.0, trials=1000)[0]
    assert found.named == pytest.approx(1 / 1000, rel=0.1)
    assert found.bound == pytest.approx(stats.norm.cdf(stats.norm.ppf(1 / 1000) + 0.2), rel=1e-3)


def test_errors_are_squared(written):
    # of 64 uniform values the mean square is 1/3, the variance 1/12
    nothing = written("def rebuild(r, s, o): return 0 * r")
    found = scored(nothing, 5.0, trials=500)[0]
    assert found.error == pytest.approx(1 / 3, rel=0.02)
    assert found.constant == pytest.approx(1 / 12, rel=0.02)


#: constant answers: of somebody who knows the law alone, the others, the candidates, or these draws
CONSTANTS = {
    "the law": ("r * 0 + 0.5", "np.zeros(len(r))"),
    "the others": ("r * 0 + k.mean(0)", "np.full(len(r), 999)"),
    "the candidates": (f"r * 0 + {DRAWN}.mean(0)", f"r[:, 0] * 0 + np.argmin({DRAWN}.var(1))"),
    "all posteriors": (
        f"r * 0 + (law(r, s, {DRAWN}) @ {DRAWN}).mean(0)",
        "r[:, 0] * 0 + law(r, s, k).mean(0).argmax()",
    ),
}


@pytest.mark.parametrize("known", CONSTANTS)
def test_no_constant_answer_scores(written, known: str):
    rebuilt, named = CONSTANTS[known]
    code = f"""
import numpy as np
def law(r, s, c):
    log_law = r @ (c / np.linalg.norm(c, axis=1, keepdims=True)).T / s**2
    weights = np.exp(log_law - log_law.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
def name(r, s, k): return {named}
def rebuild(r, s, k): return {rebuilt}
"""
    found = scored(written(code), *challenge.NOISES, seed=2, trials=200)
    assert all(one.recognised < 1e-12 and one.removed < 1e-12 for one in found)
    assert summary(found) == pytest.approx((0.0, 0.0), abs=1e-12)
    if known == "all posteriors":
        assert [one.guessed for one in found] == pytest.approx([one.named for one in found])
        assert [one.constant for one in found] == pytest.approx([one.error for one in found])


def test_the_score_is_how_often_records_are_named(written, monkeypatch):
    """The mean over the posterior against a count at the records themselves."""
    drawn = {}

    def answer(entry, function, given, shape, limit):
        drawn["releases"], sigma, candidates = given
        directions = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
        drawn["own"] = (given[0] @ directions.T).argmax(axis=1)
        return drawn["own"].astype(float)

    monkeypatch.setattr(challenge, "_answer", answer)
    found = scored(written("def name(r, s, c): pass"), 0.12, seed=3, trials=1000)[0]
    # the same draws by hand
    rng = np.random.default_rng(3)
    rng.uniform(size=(5000, 64))
    own = rng.integers(1000, size=1000)
    hits = int((drawn["own"] == own).sum())
    low, high = stats.binomtest(hits, 1000).proportion_ci(0.999)
    assert 0.3 < found.named < 0.99 and low < found.named < high
    assert found.named == pytest.approx(found.likeliest, abs=1e-12)


def test_draws_are_secret_unless_a_seed_is_given():
    nearest = ENTRIES / "nearest.py"
    assert scored(nearest, 0.2, trials=50, seed=1) == scored(nearest, 0.2, trials=50, seed=1)
    assert scored(nearest, 0.2, trials=50, seed=1) != scored(nearest, 0.2, trials=50, seed=2)
    assert scored(nearest, 0.2, trials=50) != scored(nearest, 0.2, trials=50)


# Ways to cheat


def test_an_entry_cannot_reach_the_scorers_objects(written):
    peek = """
import sys
def rebuild(releases, sigma, others):
    frame = sys._getframe()
    while frame := frame.f_back:
        for name in ("targets", "candidates", "own"):
            if name in frame.f_locals:
                return frame.f_locals[name]
    raise LookupError("no frame has them")
"""
    with pytest.raises(ValueError, match="rebuild failed, with exit status 1: LookupError: no fr"):
        scored(written(peek), 0.5, trials=20)


def test_looking_digits_up_gains_nothing(written):
    look_up = """
import numpy as np
from reconrisk import datasets
def rebuild(releases, sigma, others):
    listed = datasets.classified("MNIST-5000", split="all").inputs.astype(float)
    log_law = releases @ (listed / np.linalg.norm(listed, axis=1, keepdims=True)).T / sigma**2
    law = np.exp(log_law - log_law.max(axis=1, keepdims=True))
    return law / law.sum(axis=1, keepdims=True) @ listed
"""
    found = scored(written(look_up), 0.05, 0.2, data="MNIST", seed=5)
    filtered = scored(ENTRIES / "wiener.py", 0.05, 0.2, data="MNIST", seed=5)
    for looked, honest in zip(found, filtered, strict=True):
        assert looked.error > honest.error and looked.removed < 0.5


REPLAY = """
import numpy as np
SEEDS = {seeds}
def replay(releases, sigma, size):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        records = rng.uniform(size=(5000, 64))[4000:]
        own = rng.integers(1000, size=len(releases))
        directions = records / np.linalg.norm(records, axis=1, keepdims=True)
        if np.allclose(directions[own] + sigma * rng.normal(size=records[own].shape), releases):
            return own, records
    return np.zeros(len(releases), int), np.full((1000, 64), 0.5)
def name(releases, sigma, candidates):
    return {name}
def rebuild(releases, sigma, others):
    return {rebuild}
"""
KNOWN = "replay(releases, sigma, 0)[0]"
TARGETS = "np.take(*replay(releases, sigma, 0)[::-1], axis=0)"
GUESS, MEAN = "np.zeros(len(releases))", "0 * releases + 0.5"


def test_replayed_seeds_do_not_find_secret_draws(written):
    code = REPLAY.format(seeds="range(100)", name=KNOWN, rebuild=TARGETS)
    found = scored(written(code), 0.1, trials=40)[0]
    assert found.named < 0.1 and found.error > 0.9 * found.constant


@pytest.mark.parametrize(
    ("name", "rebuild", "function"), [(KNOWN, MEAN, "name"), (GUESS, TARGETS, "rebuild")]
)
def test_answers_that_know_more_than_releases_are_refused(written, name, rebuild, function):
    code = REPLAY.format(seeds="[11]", name=name, rebuild=rebuild)
    with pytest.raises(ValueError, match=f"{function} agrees with the records more closely than"):
        scored(written(code), 1.0, trials=40, seed=11)


def test_knowing_the_records_gains_nothing_where_it_is_not_noticed(written):
    # one answer in twenty is the record itself, the others are guesses
    few = "np.where(np.arange(len(releases)) % 20, 0, replay(releases, sigma, 0)[0])"
    found = scored(
        written(REPLAY.format(seeds="[11]", name=few, rebuild=MEAN)), 1.0, trials=40, seed=11
    )[0]
    assert found.named <= found.likeliest < 0.02


def test_a_state_is_not_kept_between_noises(written):
    counting = """
calls = []
def name(releases, sigma, candidates):
    calls.append(sigma)
    print("not an answer")
    return [len(calls)] * len(releases)
"""
    assert len(scored(written(counting), 0.5, 1.0, trials=20)) == 2


# What is refused


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "must define a function name or rebuild"),
        ("def name(:", "must be Python"),
        (
            "def name(r, s, c): return [0]",
            r"name must return numbers of at most 1e\+06, shape \(20,\)",
        ),
        ("def name(r, s, c): return [-1] * len(r)", "positions from 0 to 999"),
        ("def rebuild(r, s, o): return r * float('nan')", "rebuild must return numbers of at most"),
        ("def rebuild(r, s, o): return 1 / 0", "rebuild failed, with exit status 1: ZeroDiv"),
        ("import os\ndef name(r, s, c): os._exit(0)", "name failed, with exit status 0"),
        ("import time\ndef name(r, s, c): time.sleep(60)", "name took more than 2 seconds"),
    ],
)
def test_what_is_refused(written, code: str, message: str):
    with pytest.raises(ValueError, match=message):
        scored(written(code), 0.5, trials=20, limit=2.0 if "sleep" in code else 60.0)


def test_an_entry_is_not_run_when_it_is_read(written, tmp_path: Path):
    code = f"'''Title\n\nmore'''\nopen({str(tmp_path / 'ran')!r}, 'w')\ndef name(r, s, c): pass"
    entry = load_entry(written(code))
    assert entry.title == "Title" and entry.functions == ("name",)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(FileNotFoundError, match="there is none at"):
        load_entry(tmp_path / "other.py")


# What is printed


def test_summary_counts_what_is_worse_than_a_constant_as_nothing():
    one = challenge.Score(0.1, 0.6, 0.2, 0.6, 1.0, 0.2, 0.1, 0.0)
    two = challenge.Score(0.2, 0.1, 0.2, 0.3, 0.5, 0.05, 0.1, 0.0)
    lucky = challenge.Score(0.2, 0.6, 0.2, 0.6, 0.5, 0.0, 0.1, 0.0)
    assert one.recognised == pytest.approx(0.5) and two.recognised == pytest.approx(-1 / 3)
    assert one.removed == -1 and two.removed == 0.5
    assert summary([one, two]) == pytest.approx((0.25, 0.25))
    assert summary([lucky]) == (1, 1)


def test_the_command(tmp_path: Path):
    run = CliRunner().invoke
    printed = run(app, ["challenge", "example"])
    assert printed.exit_code == 0
    (tmp_path / "mine.py").write_text(printed.stdout)
    options = ["challenge", "score", str(tmp_path / "mine.py"), "--data", "synthetic"]
    shown = run(app, [*options, "--trials", "50"])
    assert shown.exit_code == 0 and "from a guess to the bound" in shown.stdout
    data = json.loads(run(app, [*options, "--trials", "50", "--json"]).stdout)
    assert [row["sigma"] for row in data["noises"]] == list(challenge.NOISES)
    assert data["noises"][0]["named"] == pytest.approx(1.0)
    wrong = run(app, [*options, "--trials", "50000"])
    assert wrong.exit_code == 2 and "trials" in wrong.stderr
