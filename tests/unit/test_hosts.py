"""Programs that import the library have settings of their own: its values stay the same."""

from __future__ import annotations

import doctest
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from reconrisk import attacks, bounds, privacy, risk, training

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [
    *(privacy.epsilon, privacy.noise_for_epsilon, privacy.SampledRun, privacy.tuned_epsilon),
    *(risk.assess, risk.least_noise, bounds.mse_tail, bounds.bayes_capacity_gaussian),
]
ATTACKS = [attacks.observe, attacks.bits_attack, attacks.coded_attack]


def failures(thing: Callable) -> int:
    """Return how many lines of a docstring's example give another value than it says."""
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, globs={}):
        assert test.examples
        runner.run(test, out=lambda text: None)
    return runner.summarize(verbose=False).failed


@pytest.mark.parametrize("thing", EXAMPLES, ids=lambda thing: thing.__name__)
def test_underflow_is_no_error_where_the_host_raises(thing: Callable) -> None:
    with np.errstate(all="raise"):
        assert failures(thing) == 0


@pytest.mark.parametrize("thing", ATTACKS, ids=lambda thing: thing.__name__)
def test_attacks_run_where_the_host_takes_no_gradients(thing: Callable) -> None:
    with torch.no_grad():
        assert failures(thing) == 0


def test_updates_of_many_clients_do_not_fall_back_to_a_loop() -> None:
    g = torch.Generator().manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(72, 3)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        images, labels = torch.rand(4, 2, 1, 8, 8), torch.zeros(4, 2, dtype=torch.long)
        found = training.client_updates(network, images, labels, generator=g)
    assert found is not None


def test_make_takes_a_folder_with_a_space() -> None:
    told = subprocess.run(
        ["make", "-n", "book", "PY=python", "DATA_ROOT=/data/my set"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert '--data-root "/data/my set"' in told


def test_lines_end_alike_on_every_machine() -> None:
    """Git for Windows would end lines otherwise, and checksums are of bytes."""
    rules = (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert "* text=auto eol=lf" in rules
