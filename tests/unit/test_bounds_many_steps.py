"""The average over the steps that happen to select the record."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special as sc
from scipy import stats

from reconrisk import bounds


def by_enumeration(tail, steps, p):
    k = np.arange(1, steps + 1)
    return np.sum(stats.binom.pmf(k, steps, p) * tail(k))


@pytest.mark.parametrize(("steps", "p"), [(1, 0.3), (2, 1.0), (7, 0.5), (300, 0.01), (300, 0.9)])
def test_all_three_tails_by_enumeration(steps, p):
    for eta in (0.01, 0.2, 1.5):
        assert bounds.mse_tail_sampled(eta, 6, 1.0, 1.0, steps, p) == pytest.approx(
            by_enumeration(lambda k, eta=eta: bounds.mse_tail(eta, 6, 1.0, 1.0, k), steps, p),
            rel=1e-11,
        )
    for c in (-0.4, 0.3, 0.9):
        assert bounds.ncc_tail_sampled(c, 6, 1.0, steps, p, contrast=0.7) == pytest.approx(
            by_enumeration(
                lambda k, c=c: bounds.ncc_tail(c, 6, 1.0, repeats=k, contrast=0.7), steps, p
            ),
            rel=1e-10,
        )
    db = bounds.psnr_tail_sampled(7.0, 6, 1.0, 1.0, 1.0, steps, p)
    assert db == pytest.approx(
        by_enumeration(lambda k: bounds.psnr_tail(7.0, 6, 1.0, 1.0, 1.0, k), steps, p), rel=1e-11
    )


def test_by_simulation():
    rng = np.random.default_rng(10)
    steps, p, n = 40, 0.05, 3
    k = rng.binomial(steps, p, size=300_000)
    with np.errstate(divide="ignore"):
        mse = np.where(k > 0, rng.chisquare(n, size=k.size) / n / k, np.inf)
    for eta in (0.1, 0.5, 2.0):
        value = bounds.mse_tail_sampled(eta, n, 1.0, 1.0, steps, p)
        assert abs(np.mean(mse <= eta) - value) < 4 * np.sqrt(value * (1 - value) / k.size)
    inverse = 1 / k[k > 0]
    expected = bounds.expected_mse_sampled(1.0, 1.0, steps, p)
    assert abs(inverse.mean() - expected) < 4 * inverse.std() / np.sqrt(inverse.size)


def test_a_million_steps_by_a_full_sum():
    steps, p = 10**6, 2e-4
    k = np.arange(1.0, steps + 1)
    log_pmf = bounds.selection_log_pmf(k, steps, p)
    for eta in (0.001, 0.0049, 0.02):
        full = sc.logsumexp(log_pmf + bounds.mse_tail(eta, 20, 1.0, 1.0, k, log=True))
        assert bounds.mse_tail_sampled(eta, 20, 1.0, 1.0, steps, p, log=True) == pytest.approx(
            full, rel=1e-11, abs=1e-12
        )


def test_deep_tail_is_made_by_rare_frequent_selection():
    """Far from T p: a window around the mean would be wrong by hundreds of nats."""
    steps, p, eta, n = 2000, 0.01, 1e-3, 500
    k = np.arange(1.0, steps + 1)
    terms = bounds.selection_log_pmf(k, steps, p) + bounds.mse_tail(eta, n, 1.0, 1.0, k, log=True)
    ours = bounds.mse_tail_sampled(eta, n, 1.0, 1.0, steps, p, log=True)
    assert ours == pytest.approx(sc.logsumexp(terms), rel=1e-12)
    assert k[np.argmax(terms)] > 5 * steps * p
    assert ours > np.max(terms[:60]) + 50


def test_always_selected_is_plain_repetition():
    for steps in (1, 17, 10**6):
        assert bounds.mse_tail_sampled(1.0 / steps, 9, 1.0, 1.0, steps, 1.0) == pytest.approx(
            bounds.mse_tail(1.0 / steps, 9, 1.0, 1.0, steps), rel=1e-12
        )
        assert bounds.expected_mse_sampled(2.0, 3.0, steps, 1.0) == pytest.approx(36.0 / steps)


def test_never_above_the_chance_of_being_selected():
    steps, p = 50, 0.01
    seen = -np.expm1(steps * np.log1p(-p))
    assert bounds.mse_tail_sampled(np.inf, 3, 1.0, 1.0, steps, p) == pytest.approx(seen, rel=1e-13)
    assert bounds.mse_tail_sampled(0.0, 3, 1.0, 1.0, steps, p) == 0.0
    assert bounds.ncc_tail_sampled(-1.0, 3, 1.0, steps, p) == pytest.approx(seen, rel=1e-13)


def test_expected_mse_small_cases():
    p = 0.2
    # T = 2: (2 p q * 1 + p**2/2)/(1 - q**2)
    expected = (2 * p * 0.8 + p * p / 2) / (1 - 0.64)
    assert bounds.expected_mse_sampled(1.0, 1.0, 2, p) == pytest.approx(expected, rel=1e-13)
    # one selection almost surely, when selection is rare
    assert bounds.expected_mse_sampled(1.0, 1.0, 10, 1e-9) == pytest.approx(1.0, rel=1e-7)


def test_printed_selection_probability():
    """mean_to_extreme, section 4.3: the printed number exceeds one and does not add up to one."""
    assert bounds.selection_probability_printed(1, 1000, 1e-3) == pytest.approx(1.0, rel=1e-12)
    assert np.exp(bounds.selection_log_pmf(1, 1000, 1e-3)) == pytest.approx(0.36806, abs=5e-6)
    assert bounds.selection_probability_printed(5, 5000, 1e-3) == pytest.approx(25.99, abs=5e-3)
    k = np.arange(0, 201)
    printed = bounds.selection_probability_printed(k, 200, 0.05)
    assert printed.sum() == pytest.approx(1.05**200, rel=1e-11)
    assert np.exp(bounds.selection_log_pmf(k, 200, 0.05)).sum() == pytest.approx(1.0, rel=1e-13)


def test_broadcasts():
    table = bounds.mse_tail_sampled(
        np.array([0.1, 0.5])[:, None], 4, 1.0, 1.0, np.array([1, 10, 1000]), 0.1
    )
    assert table.shape == (2, 3)
    assert table[1, 2] == pytest.approx(bounds.mse_tail_sampled(0.5, 4, 1.0, 1.0, 1000, 0.1))


def test_refuses():
    for call, message in (
        (lambda: bounds.mse_tail_sampled(1.0, 4, 1.0, 1.0, 0, 0.1), "steps must be in"),
        (lambda: bounds.mse_tail_sampled(1.0, 4, 1.0, 1.0, 5, 0.0), "selection_probability"),
        (lambda: bounds.selection_log_pmf(6, 5, 0.1), "k must be in"),
        (lambda: bounds.selection_probability_printed(5 * 10**5, 10**6, 0.5), "log must be True"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
