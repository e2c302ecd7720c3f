"""Laws of MSE, PSNR and NCC of the analytic attack against simulation, digits and limits."""

from __future__ import annotations

import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from scipy import special as sc
from scipy import stats

from reconrisk import bounds

RNG_SEED = 20240214


def reconstructions(x: np.ndarray, sigma: float, count: int, repeats: int = 1) -> np.ndarray:
    """Draw averaged reconstructions of one record, shape (count, N)."""
    rng = np.random.default_rng(RNG_SEED)
    std = sigma * np.linalg.norm(x) / np.sqrt(repeats)
    return x + std * rng.normal(size=(count, x.size))


def within_four_sigma(hits: np.ndarray, p: float) -> bool:
    return abs(np.mean(hits) - p) < 4 * np.sqrt(p * (1 - p) / hits.size) + 1e-12


@pytest.mark.parametrize("repeats", [1, 3])
def test_all_three_laws_by_simulation(repeats):
    x = np.array([0.9, 0.1, 0.4, 0.75, 0.2])
    sigma, n, norm = 0.6, x.size, np.linalg.norm(x)
    z = reconstructions(x, sigma, 200_000, repeats)
    mse = np.mean((z - x) ** 2, axis=1)
    psnr = -10 * np.log10(mse)
    a, b = x - x.mean(), z - z.mean(axis=1, keepdims=True)
    ncc = b @ a / np.linalg.norm(a) / np.linalg.norm(b, axis=1)
    for eta in np.quantile(mse, [0.01, 0.3, 0.9]):
        assert within_four_sigma(mse <= eta, bounds.mse_tail(eta, n, sigma, norm, repeats))
    for eta in np.quantile(psnr, [0.05, 0.5, 0.99]):
        p = bounds.psnr_tail(eta, n, sigma, norm, 1.0, repeats)
        assert within_four_sigma(psnr >= eta, p)
    for c in (-0.5, 0.0, 0.3, 0.9):
        assert within_four_sigma(ncc >= c, bounds.ncc_tail(c, n, sigma, x, repeats))
    for ours, sample in (
        (bounds.expected_mse(sigma, norm, repeats), mse),
        (bounds.expected_psnr(n, sigma, norm, 1.0, repeats), psnr),
        (bounds.expected_ncc(n, sigma, bounds.contrast_of(x), repeats), ncc),
    ):
        assert abs(ours - sample.mean()) < 4 * sample.std() / np.sqrt(sample.size)


def test_mse_known_digits():
    # N = 2: exponential; N = 4: Erlang
    assert bounds.mse_tail(0.5, 2, 1.0, 1.0) == pytest.approx(-np.expm1(-0.5), rel=1e-14)
    y = 4 * 0.2 / 2
    assert bounds.mse_tail(0.2, 4, 1.0, 1.0) == pytest.approx(1 - np.exp(-y) * (1 + y), rel=1e-13)
    # N = 1: the normal law
    assert bounds.mse_tail(0.09, 1, 1.0, 1.0) == pytest.approx(sc.erf(0.3 / np.sqrt(2)), rel=1e-13)


def test_mse_far_below_the_floats():
    with mp.workdps(30):
        exact = mp.log(mp.gammainc(500, 0, 0.5, regularized=True))
    ours = bounds.mse_tail(1e-3, 1000, 1.0, 1.0, log=True)
    assert ours == pytest.approx(float(exact), rel=1e-13)
    assert ours < -2900 and bounds.mse_tail(1e-3, 1000, 1.0, 1.0) == 0.0


def test_mse_at_a_billion_dimensions():
    """A normal law of relative width sqrt(2/N), with its first skewness correction."""
    n = 10**9
    for z in (-6.0, -2.0, 0.0, 1.5):
        eta = 1 + z * np.sqrt(2 / n)
        skew = np.sqrt(8 / n) / 6 * (z * z - 1)
        edgeworth = sc.ndtr(z) - skew * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
        assert bounds.mse_tail(eta, n, 1.0, 1.0) == pytest.approx(edgeworth, rel=5e-7)


def test_repeats_are_less_noise():
    for k in (2, 9, 100):
        assert bounds.mse_tail(0.1, 20, 1.0, 1.0, k) == pytest.approx(
            bounds.mse_tail(0.1, 20, 1 / np.sqrt(k), 1.0), rel=1e-12
        )
        assert bounds.ncc_tail(0.1, 20, 1.0, repeats=k) == pytest.approx(
            bounds.ncc_tail(0.1, 20, 1 / np.sqrt(k)), rel=1e-11
        )


def test_quantiles_invert_far_below_the_floats():
    log_p = np.array([-200.0, -30.0, -1.0, -0.1, -1e-6])
    for n in (2, 30, 150528):
        errors = bounds.MSELaw.unbiased(n, 0.3, 5.0)
        eta = errors.ppf(None, log_probability=log_p)
        np.testing.assert_allclose(errors.cdf(eta, log=True), log_p, rtol=1e-9)
        laws = [bounds.PSNRLaw(errors, 2.0)]
        laws += [bounds.NCCLaw.of_record(n, 0.3, contrast=0.4)] if n > 2 else []
        for law in laws:
            back = law.sf(law.isf(None, log_probability=log_p), log=True)
            np.testing.assert_allclose(back, log_p, rtol=1e-8)
    median = bounds.mse_quantile(0.5, 30, 0.3, 5.0)
    assert bounds.mse_tail(median, 30, 0.3, 5.0) == pytest.approx(0.5, rel=1e-13)
    assert bounds.MSELaw.unbiased(1000, 1.0, 1.0).pdf(1e-3, log=True) < -2800


def test_expected_psnr_digits():
    exact = []
    with mp.workdps(40):
        for n in (1, 2, 4, 10, 19, 20, 21, 1000, 10**9):
            a = mp.mpf(n) / 2
            exact.append(float(10 / mp.log(10) * (mp.log(a) - mp.digamma(a))))
    ours = bounds.expected_psnr([1, 2, 4, 10, 19, 20, 21, 1000, 10**9], 1.0, 1.0, 1.0)
    np.testing.assert_allclose(ours, exact, rtol=1e-12)
    # the printed "upper bound" lies below the expectation: Jensen the other way round
    assert np.all(ours > bounds.psnr_bound_paper(1.0, 1.0, 1.0))


def test_expected_ncc_digits():
    n = np.array([2, 3, 4, 10, 100, 1000, 150528])
    with mp.workdps(30):
        for sigma in (0.05, 0.3, 1.0, 20.0):
            exact = []
            for size in n:
                m, k = mp.mpf(int(size)) - 1, 1 / mp.mpf(sigma)
                ratio = mp.exp(mp.loggamma((m + 1) / 2) - mp.loggamma((m + 2) / 2))
                series = mp.hyp1f1(mp.mpf(1) / 2, (m + 2) / 2, -k * k / 2)
                exact.append(float(k / mp.sqrt(2) * ratio * series))
            np.testing.assert_allclose(bounds.expected_ncc(n, sigma), exact, rtol=1e-12)
    assert bounds.expected_ncc(2, 1.0) == pytest.approx(0.682689, abs=5e-7)
    assert bounds.expected_ncc(10, 1.0) == pytest.approx(0.31029, abs=5e-6)


def test_papers_ncc_bound_is_exceeded():
    """Ziller Table 1 prints 30.2% at N = 10; the mean is 31.0%, and half of the samples exceed."""
    printed = bounds.ncc_bound_paper(10, 1.0)
    assert printed == pytest.approx(0.302, abs=5e-4)
    assert bounds.expected_ncc(10, 1.0) > printed
    assert bounds.ncc_tail(printed, 10, 1.0) > 0.5
    assert bounds.ncc_bound_paper(10**9, 1.0) == pytest.approx(np.sqrt(1 / (1 + 1e9)), rel=1e-14)


def test_ncc_is_non_central_t():
    for n, sigma in ((4, 0.7), (10, 1.0), (200, 0.2)):
        c = np.array([-0.3, 0.1, 0.5])
        t = c * np.sqrt(n - 2) / np.sqrt(1 - c * c)
        np.testing.assert_allclose(
            bounds.ncc_tail(c, n, sigma), stats.nct.sf(t, n - 2, 1 / sigma), rtol=1e-8
        )


def test_ncc_in_two_dimensions_is_a_sign():
    p = stats.norm.cdf(1 / 0.8)
    np.testing.assert_allclose(bounds.ncc_tail([-1.0, -0.9, 0.0, 1.0], 2, 0.8), [1, p, p, p])
    np.testing.assert_array_equal(bounds.NCCLaw(2, 1 / 0.8).isf([p - 1e-6, p + 1e-6]), [1, -1])


def test_data_free_ncc_bound_covers_every_record():
    rng = np.random.default_rng(1)
    c = np.linspace(-0.9, 0.95, 12)
    free = bounds.ncc_tail(c, 16, 0.4)
    for _ in range(20):
        x = rng.uniform(size=(4, 4)) - rng.uniform()
        assert np.all(bounds.ncc_tail(c, 16, 0.4, x) <= free)
    balanced = np.tile([1.0, -1.0], 8)
    np.testing.assert_allclose(bounds.ncc_tail(c, 16, 0.4, balanced), free, rtol=1e-12)


def test_clipped_row_by_simulation():
    x = np.array([0.9, 0.1, 0.4, 0.75])
    rng = np.random.default_rng(3)
    for clip in (0.5, 10.0):
        norm = np.linalg.norm(x)
        z = x * min(1.0, clip / norm) + clip * 0.4 * rng.normal(size=(200_000, 4))
        mse = np.mean((z - x) ** 2, axis=1)
        expected = bounds.expected_mse_clipped(norm, 4, 0.4, clip)
        assert abs(expected - mse.mean()) < 4 * mse.std() / np.sqrt(mse.size)
        for eta in np.quantile(mse, [0.02, 0.5, 0.9]):
            assert within_four_sigma(mse <= eta, bounds.mse_tail_clipped(eta, 4, 0.4, clip, norm))
    # without clipping it is the plain law with the noise of the clipping norm
    assert bounds.mse_tail_clipped(8.0, 7, 0.4, 10.0, 2.0) == pytest.approx(
        bounds.mse_tail(8.0, 7, 0.4, 10.0), rel=1e-12
    )


def test_ends():
    assert bounds.mse_tail(0.0, 5, 1.0, 1.0) == 0.0
    assert bounds.mse_tail(np.inf, 5, 1.0, 1.0) == 1.0
    assert bounds.mse_tail(0.0, 5, 1.0, 1.0, log=True) == -np.inf
    assert bounds.ncc_tail(1.0, 5, 1.0) == 0.0 and bounds.ncc_tail(-1.0, 5, 1.0) == 1.0


CONSTANT = np.ones(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.mse_tail(-1.0, 5, 1.0, 1.0), r"threshold must be in .*-1\.0"),
        (lambda: bounds.mse_tail(1.0, 0, 1.0, 1.0), "dimension must be in"),
        (lambda: bounds.mse_tail(1.0, 2.5, 1.0, 1.0), "dimension must be a whole number"),
        (lambda: bounds.mse_tail(1.0, 5, 0.0, 1.0), "noise_multiplier must be in"),
        (lambda: bounds.mse_tail(1.0, 5, 1.0, -1.0), "data_norm must be in"),
        (lambda: bounds.mse_tail(1.0, 5, 1.0, 1.0, 0), "repeats must be in"),
        (lambda: bounds.mse_tail(1e-200, 5, 1e70, 1e70), "threshold must be .* such that"),
        (lambda: bounds.psnr_tail(2000.0, 5, 1.0, 1.0, 1.0), "threshold must be in"),
        (lambda: bounds.psnr_tail(1.0, 5, 1.0, 1.0, 0.0), "data_range must be in"),
        (lambda: bounds.ncc_tail(1.5, 5, 1.0), "threshold must be in"),
        (lambda: bounds.ncc_tail(0.5, 1, 1.0), "dimension must be in"),
        (lambda: bounds.ncc_tail(0.5, 4, 1e-9), "noise_multiplier must be in"),
        (lambda: bounds.ncc_tail(0.5, 4, 1.0, CONSTANT), "signal must not be constant"),
        (lambda: bounds.ncc_tail(0.5, 5, 1.0, np.arange(4)), "size of signal, 4"),
        (lambda: bounds.ncc_tail(0.5, 4, 1.0, np.arange(4), contrast=0.5), "not both"),
        (lambda: bounds.ncc_tail(0.5, 4, 1.0, contrast=1.5), "contrast must be in"),
        (lambda: bounds.mse_quantile(0.5, 4, 1.0, 1.0, log_probability=-1), "exactly one"),
        (lambda: bounds.mse_quantile(1.5, 4, 1.0, 1.0), "probability must be in"),
        (lambda: bounds.MSELaw(4, 1.0).pdf(0.0), "value must be in"),
        (lambda: bounds.mse_tail_clipped(1.0, 4, 1.0, 0.0, 1.0), "max_grad_norm must be in"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_import_is_light():
    """The bounds neither import PyTorch or pandas nor take long."""
    code = (
        "import sys, reconrisk.bounds;"
        "print([m for m in ('torch', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
