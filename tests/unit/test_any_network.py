"""What any network can say, and the least errors that it leaves: closed forms and other routes."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from reconrisk import bounds, risk


def mixture_by_quadrature(a: float, q: float) -> float:
    """KL of ``(1 - q) N(0, 1) + q N(a, 1)`` from ``N(0, 1)``, to many digits."""
    with mp.workdps(30):
        x, p = mp.mpf(a), mp.mpf(q)

        def integrand(y):
            ratio = 1 - p + p * mp.exp(x * y - x * x / 2)
            return mp.npdf(y) * (ratio * mp.log(ratio) - ratio + 1)

        return float(mp.quad(integrand, mp.linspace(-16, 2 * x + 16, 60)))


@pytest.mark.parametrize("a", [0.01, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("q", [1e-9, 0.01, 0.5])
def test_secret_steps_against_quadrature(a, q):
    assert bounds.information_capacity(1 / a, q) == pytest.approx(
        mixture_by_quadrature(a, q), rel=1e-12
    )


def test_the_capacity_in_closed_form_and_its_limits():
    sigma = np.array([5e-4, 0.1, 1.0, 30.0])
    full = bounds.information_capacity(sigma)
    np.testing.assert_allclose(full, 0.5 / sigma**2, rtol=1e-15)
    np.testing.assert_allclose(bounds.information_capacity(sigma, steps=7), 7 * full, rtol=1e-15)
    for m in (1, 150_528, 1e30):
        few = bounds.information_capacity(sigma, parameters=m)
        np.testing.assert_allclose(few, 0.5 * m * np.log1p(1 / (m * sigma**2)), rtol=1e-13)
        assert np.all(few <= full)
    # Figure 1 of mean_to_extreme: the linear layer against every network
    linear = bounds.information_capacity(5e-4, parameters=150_528)
    assert linear == pytest.approx(249_638.775, abs=1e-3)
    assert full[0] == pytest.approx(2e6)
    # the mixture's components do not overlap: continuous where the formula changes
    below, above = bounds.information_capacity([1 / 59.999999, 1 / 60.000001], 0.01)
    assert above == pytest.approx(below, rel=1e-7)
    # small q: q^2 (exp(1/sigma^2) - 1)/2
    small = bounds.information_capacity(1.0, 1e-8)
    assert small == pytest.approx(1e-16 * np.expm1(1.0) / 2, rel=1e-6)


@given(
    st.floats(0.02, 50),
    st.floats(1e-6, 1),
    st.floats(1, 1e9),
    st.integers(1, 1000),
)
@settings(max_examples=60, deadline=None)
def test_capacity_is_monotone_and_secrecy_never_helps_the_attacker(sigma, q, m, steps):
    def found(s=sigma, rate=q, size=m, how="secret"):
        return float(bounds.information_capacity(s, rate, steps, size, participation=how))

    slack = 1 + 1e-9
    for how in ("secret", "known"):
        value = found(how=how)
        assert 0 < value <= q * steps / (2 * sigma**2) * slack
        assert found(s=1.1 * sigma, how=how) <= value * slack
        assert found(rate=0.9 * q, how=how) <= value * slack
        assert value <= found(size=2 * m, how=how) * slack
    assert found() <= found(how="known") * slack


def test_real_channels_lie_below_the_capacity_and_come_near_it():
    sigma = 0.5
    sizes = np.array([2, 10, 100, 10_000, 10**6])
    sphere = bounds.information_on_sphere(sizes, sigma)
    capacity = bounds.information_capacity(sigma, parameters=sizes)
    assert np.all(sphere < capacity * (1 + 1e-10)) and np.all(np.diff(sphere) > 0)
    assert sphere[-1] == pytest.approx(2.0, abs=5e-6)
    # one coordinate for each candidate: another network, another route
    orthogonal = bounds.mutual_information_orthogonal([10, 1000, 10**6], 0.5)
    assert np.all(np.diff(orthogonal) > 0) and orthogonal[-1] < 0.125
    assert orthogonal[-1] > 0.1249


def test_information_on_the_sphere_by_two_dimensional_quadrature():
    sigma = 0.7
    a = 1 / sigma

    def density(x: float, y: float) -> float:
        r = np.hypot(x, y)
        # the average of exp(a <u, y>) over the circle is I_0(a r)
        value = float(mp.besseli(0, a * r))
        return np.exp(-0.5 * (r * r + a * a)) * value / (2 * np.pi)

    # h(Y) - h(Z), with the radius integrated
    def entropy(r: float) -> float:
        p = density(r, 0.0)
        return -2 * np.pi * r * p * np.log(p) if p > 0 else 0.0

    value = integrate.quad(entropy, 0, 14, limit=200)[0] - np.log(2 * np.pi * np.e)
    assert bounds.information_on_sphere(2, sigma) == pytest.approx(value, abs=1e-10)


def test_sampled_information_of_secret_steps_is_below_the_bound():
    """A network that gives each of 64 records a coordinate of its own, at q = 0.2."""
    n, q, sigma, draws = 64, 0.2, 0.4, 40_000
    rng, a = np.random.default_rng(3), 1 / sigma
    y = rng.standard_normal((draws, n))
    y[:, 0] += a * (rng.random(draws) < q)
    ratios = 1 - q + q * np.exp(a * y - 0.5 * a * a)
    values = np.log(ratios[:, 0] / ratios.mean(axis=1))
    error = values.std() / np.sqrt(draws)
    bound = bounds.information_capacity(sigma, q)
    told = bounds.information_capacity(sigma, q, participation="known")
    # bounded by the divergence, near it for many records, and far below the one that is told
    assert bound - 0.05 < values.mean() < bound - 4 * error
    assert bound < 0.8 * told


def test_capacity_of_directions_against_quadrature():
    kappa = 3.0
    # p = 3: density kappa exp(kappa t)/(2 sinh kappa) of the cosine t, uniform on the sphere 1/2
    log_ratio = np.log(kappa / np.sinh(kappa))
    mean = 1 / np.tanh(kappa) - 1 / kappa
    expected = kappa * mean + log_ratio
    assert bounds.information_capacity_vmf(3, kappa) == pytest.approx(expected, rel=1e-12)
    assert bounds.information_capacity_vmf(784, 0.0) == 0.0
    small = bounds.information_capacity_vmf(100, 1e-3)
    assert small == pytest.approx(1e-6 / 200, rel=1e-6)


def test_success_through_information():
    for n in (2, 10, 1e6):
        assert bounds.information_success(0.3, 1 / n) == pytest.approx(
            float(bounds.fano_success(0.3, n)), rel=1e-12
        )
    # any prior success: the divergence of the answer is the information
    kappa = np.array([1e-9, 0.2, 0.9])
    s = bounds.information_success(0.05, kappa)
    found = s * np.log(s / kappa) + (1 - s) * np.log((1 - s) / (1 - kappa))
    np.testing.assert_allclose(found, 0.05, rtol=1e-6)
    assert bounds.information_success(0.0, 0.3) == pytest.approx(0.3)
    assert bounds.information_success(1.0, 1.0) == 1.0
    assert bounds.information_success(5.0, np.exp(-4.0)) == 1.0


@given(st.floats(0.05, 20), st.floats(1e-4, 1), st.floats(-300, -0.01))
@settings(max_examples=60, deadline=None)
def test_paper_c_is_never_above_the_bound_by_information(sigma, q, log_kappa):
    """One step: ReRo's two laws have the divergence that bounds the information."""
    if q == 1.0 or sigma > 0.1:
        rero = bounds.rero(DP(sigma, q), log_prior_success=log_kappa)
        low = float(rero.lower)
        bound = float(
            bounds.information_success(
                bounds.information_capacity(sigma, q), log_prior_success=log_kappa
            )
        )
        assert low <= bound * (1 + 1e-9)


def DP(sigma: float, q: float):
    from reconrisk import DPSGD

    return DPSGD(sigma, q)


# Least errors ------------------------------------------------------------------------------------


def test_floor_of_uniform_values():
    assert bounds.mse_floor_uniform(0.0, 5) == pytest.approx(1 / (2 * np.pi * np.e), rel=1e-15)
    twice = bounds.mse_floor_uniform([3.0, 3.0 + 784 * np.log(2)], 784, data_range=255.0)
    assert twice[0] / twice[1] == pytest.approx(4.0, rel=1e-12)
    assert bounds.mse_floor_uniform(1e6, 784, log=True) == pytest.approx(
        -2e6 / 784 - np.log(2 * np.pi) - 1, rel=1e-15
    )


def test_reverse_water_filling_against_an_optimiser():
    variances = np.array([5.0, 2.0, 0.5, 0.1, 0.0])

    def spent(level: float) -> float:
        positive = variances[variances > 0]
        return 0.5 * np.log(np.maximum(positive / level, 1)).sum()

    for nats in (0.01, 0.3, 1.0, 4.0, 20.0):
        level = optimize.brentq(lambda w, nats=nats: spent(w) - nats, 1e-12, 5.0, xtol=1e-18)
        expected = np.minimum(variances, level).mean()
        assert bounds.mse_floor_gaussian(nats, variances) == pytest.approx(expected, rel=1e-9)
    assert bounds.mse_floor_gaussian(0.0, variances) == pytest.approx(variances.mean())
    # equal variances: the Gaussian rate-distortion function
    assert bounds.mse_floor_gaussian(6.0, np.full(3, 2.0)) == pytest.approx(2 * np.exp(-4.0))
    assert bounds.mse_floor_gaussian(5000.0, np.ones(3), log=True) == pytest.approx(-10_000 / 3)
    # never above the variance, never below that of white values with the same determinant
    with pytest.raises(ValueError, match="variances"):
        bounds.mse_floor_gaussian(1.0, np.zeros(3))


def test_a_gaussian_record_through_a_linear_layer_attains_water_filling():
    """White Gaussian records: the posterior mean of X + noise has exactly that error."""
    noise = 0.7
    nats = 8 * 0.5 * np.log1p(1 / noise**2)
    expected = noise**2 / (1 + noise**2)
    assert bounds.mse_floor_gaussian(nats, np.ones(8)) == pytest.approx(expected, rel=1e-13)


def test_levels_between_shannons_bound_and_real_channels():
    # two levels: the best estimate of a bit through a symmetric channel has the error e (1 - e),
    # and the bound must lie below it and, as a distortion-rate function, below any channel's
    for flip in (0.01, 0.1, 0.3):
        nats = np.log(2) + flip * np.log(flip) + (1 - flip) * np.log(1 - flip)
        floor = bounds.mse_floor_levels(nats, 1, levels=2)
        assert floor == pytest.approx(flip * (1 - flip), rel=5e-3)
        assert floor <= flip * (1 - flip)
    # 256 levels: no information leaves the variance, much leaves none
    variance = np.linspace(0, 1, 256).var()
    none, some, all_of_it = bounds.mse_floor_levels([0.0, 2.0, np.log(256)], 1)
    assert 0.999 * variance < none <= variance
    assert all_of_it == 0.0
    # a continuous value has no smaller distortion than Shannon's bound, discrete ones nearly so
    shannon = float(bounds.mse_floor_uniform(2.0, 1))
    assert shannon < some < 1.1 * shannon
    # a quantiser of 16 cells is a channel of ln 16 nats
    cells = np.linspace(0, 1, 256).reshape(16, 16)
    quantised = cells.var(axis=1).mean()
    assert bounds.mse_floor_levels(np.log(16), 1) < quantised
    # scale and shift
    moved = bounds.mse_floor_levels(0.2, 1, levels=[10.0, 14.0])
    assert moved == pytest.approx(16 * float(bounds.mse_floor_levels(0.2, 1, levels=2)), rel=1e-9)


def test_the_floor_of_a_set():
    rng = np.random.default_rng(5)
    records = rng.random((40, 6))
    floors = bounds.mse_floor_set([0.0, 0.5, 2.0, np.log(40)], records)
    assert np.all(np.diff(floors) < 0) and floors[-1] == pytest.approx(0.0, abs=1e-12)
    # without information the mean is the best estimate
    assert floors[0] <= records.var(axis=0).mean()
    # a channel that keeps the true one among 8 equally likely ones says ln 5 nats
    errors = [records[part].var(axis=0).mean() for part in np.array_split(np.arange(40), 5)]
    assert bounds.mse_floor_set(np.log(5), records) <= np.mean(errors)
    # by definition, for three records on a line
    three = np.array([[0.0], [1.0], [4.0]])
    s = bounds.information_success(0.1, [1 / 3, 2 / 3])
    expected = 0.25 * ((1 - 0) * (1 - s[0]) + (9 - 1) * (1 - s[1]))
    assert bounds.mse_floor_set(0.1, three) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: bounds.information_capacity(0.0), "noise_multiplier"),
        (lambda: bounds.information_capacity(1.0, 0.0), "sampling_rate"),
        (lambda: bounds.information_capacity(1.0, steps=0), "steps"),
        (lambda: bounds.information_capacity(1.0, parameters=0.5), "parameters"),
        (lambda: bounds.information_capacity(1.0, participation="told"), "participation"),
        (lambda: bounds.information_on_sphere(1, 1.0), "dimension"),
        (lambda: bounds.information_on_sphere(2, 1e-5), "noise_multiplier"),
        (lambda: bounds.information_success(-1.0, 0.5), "mutual_information"),
        (lambda: bounds.information_success(1.0), "exactly one"),
        (lambda: bounds.information_success(1.0, 0.0), "log_prior_success"),
        (lambda: bounds.mse_floor_uniform(np.nan, 3), "information"),
        (lambda: bounds.mse_floor_uniform(1.0, 3, data_range=-1.0), "data_range"),
        (lambda: bounds.mse_floor_levels(1.0, 1, levels=1), "levels"),
        (lambda: bounds.mse_floor_levels(1.0, 1, levels=[0.0, 0.0]), "levels"),
        (lambda: bounds.mse_floor_levels(1.0, 1, levels=3, prior=[0.5, 0.5]), "prior"),
        (lambda: bounds.mse_floor_set(1.0, np.zeros(3)), "records"),
    ],
)
def test_errors_name_the_argument(call, named):
    with pytest.raises(ValueError, match=named):
        call()


# The best estimates of known norm ----------------------------------------------------------------


def squared_cosine(n: int, sigma: float) -> float:
    """``E A^2`` by mpmath, over the law of the noisy norm."""

    def ratio(w):
        z = mp.sqrt(w) / sigma
        return (mp.besseli(mp.mpf(n) / 2, z) / mp.besseli(mp.mpf(n) / 2 - 1, z)) ** 2

    law = stats.ncx2(n, sigma**-2)
    top = law.mean() + 16 * law.std()
    with mp.workdps(20):
        lam = mp.mpf(sigma) ** -2
        order = mp.mpf(n) / 2 - 1

        def density(w):
            scale = mp.exp(-(w + lam) / 2) / 2 * (w / lam) ** (order / 2)
            return scale * mp.besseli(order, mp.sqrt(lam * w))

        return float(
            mp.quad(lambda w: density(w) * ratio(w), mp.linspace(mp.mpf(10) ** -20, top, 12))
        )


@pytest.mark.parametrize(("n", "sigma"), [(2, 0.3), (4, 0.3), (5, 1.0), (16, 0.5)])
def test_errors_of_known_norm_against_quadrature(n, sigma):
    square = squared_cosine(n, sigma)
    least = bounds.expected_mse_known_norm(n, sigma, 2.0)
    assert least == pytest.approx(4 / n * (1 - square), rel=1e-9)
    unbiased = bounds.expected_mse_unbiased(n, sigma, 2.0)
    assert unbiased == pytest.approx(4 / n * (1 / square - 1), rel=1e-9)


def test_order_and_limits_of_the_estimates():
    n = np.array([3, 4, 64, 784, 150_528])
    for sigma in (1e-3, 0.03, 1.0, 30.0):
        plain = bounds.expected_mse(sigma, 1.0)
        least = bounds.expected_mse_known_norm(n, sigma, 1.0)
        shrunk = bounds.expected_mse_shrunk(n, sigma, 1.0)
        unbiased = bounds.expected_mse_unbiased(n, sigma, 1.0)
        assert np.all(least <= shrunk * (1 + 1e-9)) and np.all(least < 1 / n)
        assert np.all(shrunk < plain) and np.all(unbiased <= plain * (1 + 1e-9))
        assert np.all(least < unbiased)
    # little noise: one of the N directions, the length, is known
    ratio = bounds.expected_mse_known_norm([2, 4, 16], 1e-3, 1.0) / 1e-6
    np.testing.assert_allclose(ratio, 1 - 1 / np.array([2, 4, 16]), rtol=1e-4)
    # much noise: nothing but the norm is left
    assert bounds.expected_mse_known_norm(10, 1e4, 1.0) == pytest.approx(0.1, rel=1e-6)
    once, four = (bounds.expected_mse_unbiased(50, s, 2.0, k) for s, k in ((0.1, 1), (0.2, 4)))
    assert four == pytest.approx(once, rel=1e-14)


def test_the_estimates_attain_their_errors_at_every_record():
    torch = pytest.importorskip("torch")
    from reconrisk import attacks

    n, sigma, count = 4, 0.3, 200_000
    rng = np.random.default_rng(11)
    for record in (np.eye(n)[0] * 3.0, np.ones(n), rng.random(n)):
        norm = np.linalg.norm(record)
        seen = torch.as_tensor(record + sigma * norm * rng.normal(size=(count, n)))
        best = attacks.posterior_on_sphere(seen, sigma, float(norm)).numpy()
        squares = np.square(best - record).mean(axis=1)
        error = squares.std() / np.sqrt(count)
        expected = bounds.expected_mse_known_norm(n, sigma, norm)
        assert abs(squares.mean() - expected) < 4 * error < 0.02 * expected
        fair = attacks.unbiased_on_sphere(seen, sigma, float(norm)).numpy()
        squares = np.square(fair - record).mean(axis=1)
        expected = bounds.expected_mse_unbiased(n, sigma, norm)
        error = squares.std() / np.sqrt(count)
        assert abs(squares.mean() - expected) < 4 * error < 0.02 * expected
        spread = fair.std(axis=0) / np.sqrt(count)
        assert np.all(np.abs(fair.mean(axis=0) - record) < 5 * spread)
    # averages of k observations, and a vector of zeros
    seen = torch.zeros(1, n, dtype=torch.float64)
    assert torch.equal(attacks.posterior_on_sphere(seen, sigma, 1.0, 3), seen)
    with pytest.raises(ValueError, match="at least 2"):
        attacks.posterior_on_sphere(torch.zeros(1, 1), sigma, 1.0)
    with pytest.raises(ValueError, match="at least 2"):
        attacks.unbiased_on_sphere(torch.zeros(1, 1), sigma, 1.0)


# The report --------------------------------------------------------------------------------------


def test_the_report_has_the_converse_beside_the_linear_layers_law():
    record = risk.record(dimension=784, data_norm=9.2, data_range=1.0)
    report = risk.assess(
        risk.training_run(noise_multiplier=0.01, sampling_rate=1.0, steps=1, parameters=10**6),
        record,
    )
    entry = report["information_any_network"]
    assert entry.value == pytest.approx(0.5e6 * np.log1p(1e4 / 1e6), rel=1e-12)
    assert report["information_secret_steps"].value == entry.value
    floor = report["mse_any_network"]
    assert floor.value == pytest.approx(float(bounds.mse_floor_uniform(entry.value, 784)), rel=1e-9)
    assert floor.value < 1e-4 * report["mse_shrunk"].value
    assert entry.threat_model == "any_attack" and report["mse"].threat_model == "prior_free"
    sampled = risk.training_run(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
    report = risk.assess(sampled, record)
    assert report["information_any_network"].value == pytest.approx(5.0)
    assert report["information_secret_steps"].value == pytest.approx(0.0838122, rel=1e-5)
    # layer by layer the sensitivity is sqrt(layers)
    layered = risk.assess(
        risk.training_run(noise_multiplier=1.0, sampling_rate=1.0, steps=1, layers=4), record
    )
    assert layered["information_any_network"].value == pytest.approx(2.0)
    vmf = risk.training_run(
        mechanism="vmf", concentration=300.0, parameters=7960, sampling_rate=1.0, steps=10
    )
    report = risk.assess(vmf, record)
    assert report["information_any_network"].value == pytest.approx(
        10 * float(bounds.information_capacity_vmf(7960, 300.0))
    )
    assert report["information_secret_steps"].status == "not applicable"
    found = risk.least_noise("mse_any_network", 0.01, sampled, record=record)
    assert found.entry.value >= 0.01
