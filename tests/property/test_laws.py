"""Every law and variant agrees with itself: its tails, their inverses, the density, the mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from reconrisk.bounds import MSELaw, NCCLaw, PSNRLaw

NORM, CLIP, STEPS, RATE = 5.0, 2.0, 8, 0.3

ERRORS = {
    "plain": lambda n, s: MSELaw.unbiased(n, s, NORM, 3),
    "clipped": lambda n, s: MSELaw.clipped(n, s, CLIP, NORM, 2),
    "shrunk": lambda n, s: MSELaw.shrunk(n, s, NORM),
    "sampled": lambda n, s: MSELaw.unbiased(n, s, NORM).sampled(STEPS, RATE),
}
LAWS = {
    **{f"MSE {name}": law for name, law in ERRORS.items()},
    **{
        f"PSNR {name}": lambda n, s, law=law: PSNRLaw(law(n, s), 1.0)
        for name, law in ERRORS.items()
    },
    "NCC plain": lambda n, s: NCCLaw.of_record(n + 4, s, repeats=3, contrast=0.8),
    "NCC of noise": lambda n, s: NCCLaw.of_record(n + 4, s, contrast=0.0),
    "NCC sampled": lambda n, s: NCCLaw.of_record(n + 4, s).sampled(STEPS, RATE),
}

#: a metric's value and its derivative, where the density is smooth on the whole line
ON_THE_LINE = {
    "MSE": (np.log, np.exp, np.exp),
    "PSNR": (lambda x: x, lambda y: y, np.ones_like),
    "NCC": (np.arctanh, np.tanh, lambda y: np.cosh(y) ** -2.0),
}

RANGE = {"MSE": (0.0, np.inf), "PSNR": (-1000.0, 1000.0), "NCC": (-1.0, 1.0)}

every_law = pytest.mark.parametrize("name", LAWS)
dimensions = st.one_of(st.integers(1, 12), st.sampled_from([784, 150528]))
noises = st.floats(-2, 0.7).map(lambda e: 10.0**e)
few = settings(max_examples=4, deadline=None, derandomize=True, phases=[Phase.generate])


def release_probability(name: str) -> float:
    return 1 - (1 - RATE) ** STEPS if name.endswith("sampled") else 1.0


def success(law, name: str):
    """Return the tail of success and its inverse."""
    return (law.cdf, law.ppf) if name.startswith("MSE") else (law.sf, law.isf)


@every_law
@few
@given(dimensions, noises, st.floats(-60, -1e-3))
def test_quantiles_invert_both_tails(name, n, sigma, log_p):
    law = LAWS[name](n, sigma)
    tail, quantile = success(law, name)
    log_p += np.log(release_probability(name))
    x = quantile(None, log_probability=log_p)
    # within the rounding of the quantile itself, which near an NCC of one is coarse
    around = np.clip(x + abs(x) * np.array([-1e-13, 0.0, 1e-13]), *RANGE[name.split()[0]])
    log_tail, slack = tail(around, log=True), 1e-11 * (1 - log_p)
    assert log_tail.min() - slack <= log_p <= log_tail.max() + slack
    p = law.cdf(x)
    if 1e-6 < p < 1 - 1e-6:
        assert law.sf(x) == pytest.approx(1 - p, rel=1e-9)
        assert law.ppf(p) == pytest.approx(x, rel=1e-8) and law.isf(1 - p) == pytest.approx(
            x, rel=1e-8
        )


@every_law
@few
@given(st.one_of(st.integers(1, 12), st.just(784)), noises)
def test_the_density_is_the_slope_and_the_mean_its_integral(name, n, sigma):
    law = LAWS[name](n, sigma)
    tail, quantile = success(law, name)
    whole = release_probability(name)
    to_line, value, slope = ON_THE_LINE[name.split()[0]]
    ends = quantile(whole * np.array([1e-12, 1 - 1e-12]))
    ends = to_line(np.clip(ends, -1 + 1e-15, 1 - 1e-15) if name.startswith("NCC") else ends)
    y = np.linspace(*ends, 801)
    mass = law.pdf(value(y)) * slope(y)
    assert np.trapezoid(mass, y) / whole == pytest.approx(np.sign(ends[1] - ends[0]), rel=1e-8)
    mean = np.trapezoid(value(y) * mass, y) / np.trapezoid(mass, y)
    assert law.mean() == pytest.approx(mean, rel=1e-7, abs=1e-9)
    middle = to_line(quantile(whole * 0.3))
    step = 1e-5 * abs(ends[1] - ends[0])
    rise = (law.cdf(value(middle + step)) - law.cdf(value(middle - step))) / (2 * step)
    assert law.pdf(value(middle)) * slope(middle) == pytest.approx(rise, rel=1e-6)


def test_a_law_broadcasts_its_parameters_with_its_arguments():
    law = MSELaw.clipped(np.array([[4], [50]]), 0.3, CLIP, np.array([1.0, 2.0, 5.0]))
    assert law.ppf(0.5).shape == law.mean().shape == PSNRLaw(law, 1.0).mean().shape == (2, 3)
    np.testing.assert_allclose(law.cdf(law.ppf(0.5)), 0.5, rtol=1e-11)
    alone = MSELaw.clipped(50, 0.3, CLIP, 5.0)
    assert PSNRLaw(law, 1.0).mean()[1, 2] == pytest.approx(PSNRLaw(alone, 1.0).mean(), rel=1e-14)
    assert law.pdf(0.4)[1, 2] == pytest.approx(alone.pdf(0.4), rel=1e-13)


def test_without_a_release_there_is_no_success():
    law = MSELaw.unbiased(6, 1.0, 1.0).sampled(3, 0.2)
    assert law.ppf(1 - 0.8**3 + 1e-9) == np.inf and law.ppf(0.0) == 0.0
    assert PSNRLaw(law, 1.0).isf(0.9) == -np.inf
    assert NCCLaw.of_record(6, 1.0).sampled(3, 0.2).isf(0.9) == -1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MSELaw(4, 0.0), "noise_std must be in"),
        (lambda: MSELaw(4, 1.0, -1.0), "shift must be in"),
        (lambda: MSELaw(4, 1.0, 2.0).sampled(3, 0.5), "shift must be 0"),
        (lambda: NCCLaw(2, 1.0).pdf(0.5), "dimension must be in"),
        (lambda: NCCLaw(4, 1e6).sampled(10**9, 0.5), r"sqrt\(steps\)"),
        (lambda: PSNRLaw(MSELaw(4, 1.0), 0.0), "data_range must be in"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
