"""The landing page's statements, each by a route of its own and against an adversary.

Nothing here calls what an exhibit calls: NumPy, SciPy, stored and recorded tables, and data. A row
of ``data/companion/headlines.csv`` says what the adversary may choose; the test of the same name
lets it choose, and fails where it makes the statement false.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from reconrisk import datasets

ROOT = Path(__file__).parents[2]
HEADLINES = pd.read_csv(ROOT / "data/companion/headlines.csv", keep_default_na=False)
RECORDED, TABLES = ROOT / "data/recorded/beyond", ROOT / "tests/tables/beyond"
EXHIBITS = pd.read_csv(ROOT / "data/companion/exhibits.csv")["id"]


def test_every_finding_of_the_landing_page_has_a_row_and_a_test():
    page = (ROOT / "book/index.md").read_text("utf-8")
    assert re.findall(r"\((found-[a-z]+)\)=", page) == list(HEADLINES["id"])
    tests = {f"test_{name.replace('-', '_')}" for name in HEADLINES["id"]}
    assert tests <= set(globals())
    assert set(HEADLINES["exhibit"]) <= set(EXHIBITS)


# --- without a prior ---------------------------------------------------------------------------


def _digits(count: int) -> np.ndarray:
    data = datasets.classified("MNIST-5000")
    return np.asarray(data.inputs, float).reshape(len(data.inputs), -1)[:count]


def test_found_shrinkage():
    rng = np.random.default_rng(1)
    digit = _digits(1)[0]
    n = digit.size
    pixel = np.zeros(n)
    pixel[7] = 1.0
    for image in (digit, np.ones(n), pixel, 1e-6 * rng.random(n)):
        for sigma in (0.01, 0.1, 1.0):
            noise = sigma * np.linalg.norm(image) * rng.standard_normal((400, n))
            factor = 1.0 / (1.0 + n * sigma**2)
            copy = np.mean(noise**2, axis=1)
            shrunken = np.mean((factor * (image + noise) - image) ** 2, axis=1)
            gain = copy - shrunken
            assert gain.mean() > 4.0 * gain.std() / 20.0 > 0.0
            # 4 standard errors of a mean of 400 chi-squared ratios
            assert shrunken.mean() / copy.mean() == pytest.approx(factor, rel=0.05)


def test_found_ncc():
    rng = np.random.default_rng(2)
    digit = _digits(1)[0]
    hardly = 0.5 + 1e-3 * rng.random(16)
    for image, sigma in ((digit, 0.1), (hardly, 1e-3), (np.array([0.0, 0.1, 0.9, 0.4]), 10.0)):
        n = image.size
        centred = image - image.mean()
        copies = image + sigma * rng.standard_normal((20_000, n))
        copies -= copies.mean(axis=1, keepdims=True)
        ncc = copies @ centred / (np.linalg.norm(copies, axis=1) * np.linalg.norm(centred))
        t = ncc * np.sqrt((n - 2) / (1.0 - ncc**2))
        law = stats.nct(n - 2, np.linalg.norm(centred) / sigma)
        assert stats.kstest(t, law.cdf).pvalue > 1e-3
        # the central law, or one degree of freedom more, is told apart where there is a signal
        if np.linalg.norm(centred) > sigma:
            assert stats.kstest(t, stats.t(n - 2).cdf).pvalue < 1e-6


# --- one hypothesis test -----------------------------------------------------------------------


def _best_success(gradients: np.ndarray, noise: np.ndarray) -> float:
    """Return how often the nearest of equally likely gradients is the right one."""
    hits = 0.0
    for right, gradient in enumerate(gradients):
        released = gradient + noise
        far = ((released[:, None] - gradients) ** 2).sum(axis=2)
        hits += np.mean(far.argmin(axis=1) == right)
    return hits / len(gradients)


def test_found_gap():
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((5000, 2))
    fresh = rng.standard_normal((200_000, 2))
    for mu in (0.5, 1.0, 2.0):
        bound = stats.norm.cdf(stats.norm.ppf(1 / 3) + mu)

        def arranged(x: np.ndarray, mu: float = mu) -> np.ndarray:
            angles, lengths = np.split(x, 2)
            lengths = mu * np.clip(np.abs(lengths), 0.0, 1.0)
            return np.column_stack([np.cos(angles), np.sin(angles)]) * lengths[:, None]

        def miss(x: np.ndarray) -> float:
            return -_best_success(arranged(x), noise)  # noqa: B023

        starts = [np.r_[2 * np.pi * rng.random(3), rng.random(3)] for _ in range(4)]
        starts.append(np.r_[0.0, 2 * np.pi / 3, 4 * np.pi / 3, 1.0, 1.0, 1.0])
        options = {"maxfev": 150}
        found = [optimize.minimize(miss, x, method="Nelder-Mead", options=options) for x in starts]
        best = max(_best_success(arranged(one.x), fresh) for one in found)
        assert best < bound - 5 * 0.5 / np.sqrt(len(fresh)), mu
    # two opposite candidates meet it
    two = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert _best_success(two, fresh) == pytest.approx(stats.norm.cdf(1.0), abs=0.005)


# --- epsilon and risk --------------------------------------------------------------------------


def _losses(sigma: float, rate: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return losses of sub-sampled Gaussian steps and their masses with the record, by FFT."""
    width, size = 2e-3, 2**17
    x = np.linspace(-14.0, 14.0 + 1.0 / sigma, 400_001)
    shift = x / sigma - 0.5 / sigma**2
    one = shift if rate == 1 else np.logaddexp(np.log1p(-rate), np.log(rate) + shift)
    mass = np.diff((1 - rate) * stats.norm.cdf(x) + rate * stats.norm.cdf(x - 1 / sigma))
    at = np.rint(0.5 * (one[1:] + one[:-1]) / width).astype(int)
    lattice = np.bincount(at % size, weights=mass, minlength=size)
    composed = np.maximum(np.fft.irfft(np.fft.rfft(lattice) ** steps, size), 0.0)
    shifts = (np.arange(size) + size // 2) % size - size // 2
    order = np.argsort(shifts)
    return shifts[order] * width, composed[order]


def _delta(losses: np.ndarray, mass: np.ndarray, epsilon: float) -> float:
    above = losses > epsilon
    return float(np.sum(mass[above] * -np.expm1(epsilon - losses[above])))


def _success(losses: np.ndarray, mass: np.ndarray, prior: float) -> float:
    """Return the power of the most powerful test of that level."""
    power = np.cumsum(mass[::-1])
    level = np.cumsum((mass * np.exp(np.minimum(-losses, 50.0)))[::-1])
    return float(np.interp(prior, level, power))


def _noise_at(epsilon: float, delta: float, rate: float, steps: int) -> float:
    def excess(log_sigma: float) -> float:
        found = _delta(*_losses(float(np.exp(log_sigma)), rate, steps), epsilon)
        return float(np.log(max(found, 1e-300) / delta))

    return float(np.exp(optimize.brentq(excess, np.log(0.4), np.log(30.0), xtol=1e-4)))


def test_found_risk():
    for delta in (1e-3, 1e-5, 1e-7, 1e-9):
        success = [
            _success(*_losses(_noise_at(4.0, delta, *run), *run), 0.1)
            for run in ((1.0, 1), (0.01, 1000))
        ]
        assert max(success) > 1.15 * min(success), delta


def test_found_answers():
    run = (0.1, 100)
    losses, mass = _losses(_noise_at(8.0, 1e-5, *run), *run)
    bound = _success(losses, mass, 0.1)
    assert bound == pytest.approx(0.511, abs=0.005)
    # the most powerful test guesses: it names no more, and the page says so
    rng = np.random.default_rng(4)
    sigma, (rate, steps) = _noise_at(8.0, 1e-5, *run), run
    sums = sigma * rng.standard_normal((20_000, steps)) + (rng.random((20_000, steps)) < rate)
    score = np.log1p(rate * np.expm1((sums - 0.5) / sigma**2)).sum(axis=1)
    without = sigma * rng.standard_normal((20_000, steps))
    level = np.quantile(np.log1p(rate * np.expm1((without - 0.5) / sigma**2)).sum(axis=1), 0.9)
    assert np.mean(score > level) == pytest.approx(bound, abs=0.02)


# --- noises, defences, knowledge ---------------------------------------------------------------


def _at(table: pd.DataFrame, name: str, by: str, at: np.ndarray) -> np.ndarray:
    ordered = table.sort_values(by)
    return np.interp(at, ordered[by], ordered[name])


def test_found_calibration():
    folder = RECORDED / "mechanism_or_calibration"
    attack, utility = (pd.read_csv(folder / f"{name}.csv") for name in ("attack", "utility"))
    for table in (attack, utility):
        table["log noise"] = np.log(table["noise"])
    larger = []
    for n in (16, 128):
        pairs = [
            [t[(t["n"] == n) & (t["mechanism"] == name)] for t in (attack, utility)]
            for name in ("VMF", "Gaussian")
        ]
        (vmf, vmf_use), (gauss, gauss_use) = pairs
        within = vmf[vmf["cosine"].between(gauss["cosine"].min(), gauss["cosine"].max())]
        beside = _at(gauss, "mse", "cosine", within["cosine"].to_numpy())
        # one error at one cosine, wherever along the curve
        assert np.max(np.abs(np.log(within["mse"] / beside))) < 0.08
        # at every accuracy that both reach, VMF errs more
        low = max(vmf_use["accuracy"].min(), gauss_use["accuracy"].min())
        high = min(vmf_use["accuracy"].max(), gauss_use["accuracy"].max())
        accuracies = np.linspace(low, high, 10)[1:-1]
        errors = [
            _at(errs, "mse", "log noise", _at(use, "log noise", "accuracy", accuracies))
            for errs, use in ((vmf, vmf_use), (gauss, gauss_use))
        ]
        larger += list(errors[0] > errors[1])
        # and over the training the directions are alike
        alike = [
            _at(use, "cosine", "accuracy", accuracies[accuracies > 0.8])
            for use in (vmf_use, gauss_use)
        ]
        assert abs(np.mean(np.log(alike[1] / alike[0]))) < 0.25
    assert np.mean(larger) >= 0.9


def test_found_defences():
    gains = pd.read_csv(TABLES / "aware_attackers/gains-by-batch.csv")
    by = (gains["aware"] - gains["oblivious"]).groupby(gains["defence"]).mean()
    page = (ROOT / "book/index.md").read_text("utf-8")
    printed = {"LocalAggregation": 5.4, "GradNoise": 3.4, "GradDrop": 6.2, "GradPrune": 0.4}
    for defence, gain in printed.items():
        assert f"{by[defence]:.1f}" == f"{gain}" and f"{gain}" in page
    # chance alone is the adversary: which gains over the batches it explains
    gain = (gains["aware"] - gains["oblivious"]).groupby(
        [gains["defence"], gains["batch size"], gains["batch"]]
    )
    each = gain.mean()
    known = {"GradNoise": True, "LocalAggregation": True, "GradDrop": False, "GradPrune": False}
    for defence, is_known in known.items():
        one = each[defence]
        least = one.mean() - stats.t.ppf(0.975, len(one) - 1) * one.sem()
        assert (least > 0) == is_known, defence


def test_found_knowledge():
    images = _digits(4000)
    rng = np.random.default_rng(5)
    others, targets = images[:3800], images[3800:]
    mean, sigma = others.mean(axis=0), 0.1
    values, axes = np.linalg.eigh(np.cov(others.T))
    values = np.maximum(values, 1e-9)
    errors = []
    for image in targets[:200]:
        copy = image + sigma * np.linalg.norm(image) * rng.standard_normal(image.size)
        # the filter knows the release's noise of a record of typical length, no factor
        share = values / (values + (sigma * np.linalg.norm(mean)) ** 2 * 2.0)
        filtered = mean + axes @ (share * (axes.T @ (copy - mean)))
        errors.append([np.mean((one - image) ** 2) for one in (copy, mean, filtered)])
    copy_error, mean_error, filtered = np.mean(errors, axis=0)
    assert copy_error / mean_error == pytest.approx(13.0, rel=0.15)
    assert filtered / mean_error == pytest.approx(0.5, abs=0.06)
    # whoever is told the factor, looks the norm up
    norms = np.sort(np.linalg.norm(images, axis=1))
    assert np.mean(np.diff(norms) > 1e-9 * norms[1:]) > 0.999
