"""What must hold of von Mises-Fisher noise for every argument."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconrisk import bounds, privacy, special

dimensions = st.one_of(st.integers(2, 12), st.integers(13, 10**4), st.sampled_from([13_700, 10**7]))
concentrations = st.floats(-3, 5).map(lambda e: 10.0**e)
orders = st.one_of(st.floats(0.01, 0.99), st.floats(1.0, 3.0), st.floats(0.5, 4).map(np.exp))
angles = st.floats(0.01, np.pi)
growth = st.floats(1e-3, 3).map(lambda g: 1 + g)
bessel_orders = st.one_of(st.floats(0, 50), st.floats(0, 6).map(lambda e: 10.0**e))
arguments = st.floats(-6, 6).map(lambda e: 10.0**e)

quick = settings(max_examples=80, deadline=None)
SLACK = 1e-12


def not_above(a, b) -> bool:
    return bool(np.all(a <= b + SLACK * np.maximum(np.abs(b), 1e-300)))


@quick
@given(bessel_orders, arguments, growth)
def test_reduced_bessel_lies_between_its_bounds(nu, x, g):
    value = special.log_iv_reduced(nu, x)
    assert 0 < value
    assert not_above(value, x)
    # every term of the series is below that of exp(x**2 / (4 (nu + 1)))
    assert not_above(value, x * x / (4 * (nu + 1)))
    assert not_above(value * g, special.log_iv_reduced(nu, g * x))  # convex, zero at zero
    assert not_above(special.log_iv_reduced(nu + 1, x), value)


@quick
@given(bessel_orders, st.floats(1e-9, 1 - 1e-6))
@example(10.0**4.5, 0.9999989999999999)  # the slope cancels to zero there
def test_ratio_inverse_inverts(nu, ratio):
    x = special.bessel_ratio_inverse(nu, ratio)
    assert abs(special.bessel_ratio(nu, x) - ratio) <= 4e-15 * ratio


@quick
@given(orders, dimensions, concentrations, angles, growth)
def test_theorem_1_and_the_worst_angle(a, p, kappa, theta, g):
    value = privacy.vmf_renyi(a, p, kappa, theta)
    assert value > 0
    assert not_above(value, privacy.vmf_renyi(a, p, kappa * g, theta))
    assert not_above(privacy.vmf_renyi(a, p + 1, kappa, theta), value)
    assert not_above(value, privacy.vmf_renyi(a, p, kappa, min(theta * g, np.pi)))
    assert not_above(value, privacy.vmf_renyi(a * g, p, kappa, theta))
    assert not_above(value, privacy.vmf_renyi(np.inf, p, kappa, theta))


@quick
@given(dimensions, concentrations, st.floats(1.01, 50), st.floats(0.01, 40), st.floats(0.05, 0.95))
def test_log_moments_are_convex_in_the_order(p, kappa, a, gap, share):
    def moment(order):
        return (order - 1) * privacy.vmf_renyi(order, p, kappa)

    between = moment(a + share * gap)
    chord = (1 - share) * moment(a) + share * moment(a + gap)
    assert between <= chord * (1 + 1e-11)


@quick
@given(orders, st.lists(st.integers(2, 500), min_size=1, max_size=6), concentrations)
def test_proposition_3(a, blocks, kappa):
    one = privacy.vmf_renyi(a, sum(blocks), kappa)
    cut = privacy.vmf_renyi_blocks(a, blocks, kappa)
    assert not_above(one, cut)
    # and its reason: every single block already leaks more than the whole vector
    assert not_above(one, privacy.vmf_renyi(a, blocks, kappa))


@quick
@given(st.floats(0.01, 20), st.floats(1e-9, 0.1), st.floats(1e-4, 1), growth)
def test_amplification_is_monotone(epsilon, delta, q, g):
    value, smaller = privacy.amplify(epsilon, delta, q)
    assert not_above(value, epsilon) and smaller <= delta
    assert not_above(value, privacy.amplify(epsilon * g, delta, q)[0])
    assert not_above(value, privacy.amplify(epsilon, delta, min(q * g, 1.0))[0])


@settings(max_examples=15, deadline=None)
@given(
    st.integers(3, 20_000),
    st.floats(-1, 2.5).map(lambda e: 10.0**e),
    st.floats(-9, -2).map(lambda e: 10.0**e),
    st.floats(-3, 0).map(lambda e: 10.0**e),
    st.integers(1, 300),
)
@example(13_457, 1.0, 1e-9, 10.0**-1.25, 86)  # epsilon has a second minimum, at the last order
@example(13_457, 1.0, 1e-9, 10.0**-1.25, 84)
def test_both_approaches_are_monotone(p, kappa, delta, q, steps):
    for approach in (privacy.vmf_epsilon_by_conversion, privacy.vmf_epsilon_by_renyi):
        value = approach(kappa, p, delta, q, steps).epsilon
        assert 0 <= value <= 2 * kappa * steps * 3 + 40  # never beyond the size of all losses
        room = 1e-6 * value + 1e-9
        assert value <= approach(kappa * 1.3, p, delta, q, steps).epsilon + room
        assert approach(kappa, p, min(delta * 3, 0.5), q, steps).epsilon <= value + room
        assert value <= approach(kappa, p, delta, q, steps + 1).epsilon + room
        assert value <= approach(kappa, p, delta, min(q * 1.5, 1.0), steps).epsilon + room


@settings(max_examples=15, deadline=None)
@given(
    st.integers(2, 20_000),
    st.floats(-2, 1.5).map(lambda e: 10.0**e),
    st.floats(-9, -2).map(lambda e: 10.0**e),
    st.one_of(st.just(1.0), st.floats(-3, -0.05).map(lambda e: 10.0**e)),
    st.integers(1, 200),
)
# on the circle most of the loss is at its ends, far from where the tails are known well
@example(2, 10.0, 1e-5, 0.1, 1)
@example(2, 20.0, 1e-5, 0.1, 1)
@example(4, 1.0074347785173274, 6.992e-9, 1.0, 1)  # epsilon next to the largest loss
@example(50, 0.0996, 2.03e-9, 1.12e-3, 1)  # a tiny epsilon under a steep tilt
@example(12, 0.0673, 6.71e-3, 0.0306, 200)  # delta(0) just above delta
@example(641, 10.0**1.25, 1e-7, 1e-3, 3)  # what the transform leaves out must be small
@example(2, 39.427, 1.08e-4, 1.0, 1)  # the Renyi bound is within the tolerance of the truth
def test_certified_epsilon(p, kappa, delta, q, steps):
    value = privacy.vmf_epsilon(kappa, p, delta, q, steps, tolerance=1e-3)
    assert 0 <= value.lower <= value.upper <= 2 * kappa * steps * (1 + 1e-9) + 1e-9
    other = privacy.vmf_epsilon_by_renyi(kappa, p, delta, q, steps).epsilon
    assert not_above(value.lower, other)
    assert value.upper <= other * (1 + 1e-3) + 1e-9
    if value.upper < 200:
        assert value.width <= 2e-3 * value.upper + 1e-9
    more = privacy.vmf_epsilon(1.4 * kappa, p, delta, q, steps, tolerance=1e-3)
    assert value.lower <= more.upper


@quick
@given(dimensions, concentrations, growth)
def test_vmf_capacity(p, kappa, g):
    value = bounds.bayes_capacity_vmf(p, kappa)
    slack = 1e-15 * kappa * 4
    assert 0 <= value <= kappa
    assert value <= bounds.bayes_capacity_vmf(p, kappa * g) + slack * g
    assert value <= bounds.bayes_capacity_vmf(p + 1, kappa) + slack
    # leaking about exact inputs bounds leaking about membership: log C <= D_inf
    assert value <= privacy.vmf_renyi(np.inf, p, kappa)


@quick
@given(st.integers(1, 3000), st.floats(-3, 3), growth)
def test_gaussian_capacity(p, log_ratio, g):
    s = 10.0**-log_ratio
    value = bounds.bayes_capacity_gaussian(p, s, 1.0)
    assert value > 0
    assert not_above(value, bounds.bayes_capacity_gaussian(p, s, g) * (1 + 1e-9))
    assert not_above(value, bounds.bayes_capacity_gaussian(p + 1, s, 1.0) * (1 + 1e-9))
    scaled = bounds.bayes_capacity_gaussian(p, s * 7, 7.0)
    assert abs(scaled - value) <= 1e-11 * p + 1e-9 * value


@quick
@given(st.integers(2, 8), st.integers(2, 8), st.integers(2, 8), st.integers(0, 2**31))
def test_post_processing_never_raises_the_capacity(inputs, outputs, after, seed):
    rng = np.random.default_rng(seed)
    c, d = rng.dirichlet(np.full(outputs, 0.3), inputs), rng.dirichlet(np.full(after, 0.3), outputs)
    value = bounds.bayes_capacity_discrete(c)
    assert bounds.bayes_capacity_discrete(c @ d) <= value + 1e-12
    assert 0 <= value <= np.log(min(inputs, outputs)) + 1e-15
