"""Sides of roundings, and the thresholds of words, on numbers next to them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from reconrisk import risk
from reconrisk.risk import _judgement as words
from reconrisk.risk._entries import Entry
from reconrisk.risk._numbers import chance, describe_value, number, share
from reconrisk.risk._warnings import warnings_of

RUN = risk.training_run(noise_multiplier=1.0, sampling_rate=1.0, steps=1)
ENTRY = Entry(
    "rero", (), "matching", "", "", "ok", "", (), 0.0, 0.0, None, None, "probability",
    "upper bound on success", "larger", "", (), None, "", None,
)  # fmt: skip
RNG = np.random.default_rng(20240)
EXPONENTS = [*RNG.uniform(-14, -1e-3, 300), *np.log10(1 - 10 ** RNG.uniform(-6, -1, 100))]
PROBABILITIES = (10 ** np.array(EXPONENTS)).tolist()


# Sides -------------------------------------------------------------------------------------------


def numbers_in(text):
    return [float(word) for word in re.findall(r"\d[\d.]*(?:e[+-]\d+)?", text)]


def test_bounds_and_intervals_are_rounded_outwards():
    for value in (10 ** RNG.uniform(-9, 9, 60)).tolist():
        one = replace(ENTRY, lower=value, upper=value, unit="dB")
        (low,) = numbers_in(describe_value(replace(one, direction="lower bound on x")))
        (high,) = numbers_in(describe_value(replace(one, direction="upper bound on x")))
        assert low <= value <= high and high - low <= 0.011 * value
        two = replace(one, upper=2 * value, direction="interval")
        low, high = numbers_in(describe_value(two))
        assert low <= value and 2 * value <= high


def as_probability(text):
    if one_in := re.fullmatch(r"1 in ([\d,]+)", text):
        return 1 / float(one_in[1].replace(",", ""))
    return float(text.removesuffix("%")) / 100


def test_what_is_bounded_is_rounded_up_and_what_is_attained_down():
    for p in PROBABILITIES:
        assert p * (1 - 1e-12) <= as_probability(chance(p)) <= p + 0.011 * min(p, 0.1)
        if p < 0.99:
            assert 0.98 * p <= as_probability(share(p)) <= p * (1 + 1e-12)


def test_what_underflows_is_rounded_to_its_side():
    def exponent(text):
        mantissa, _, power = text.replace("10^", "1e").partition("e")
        return math.log10(float(mantissa)) + float(power)

    for log in (-(10 ** RNG.uniform(3, 17, 40))).tolist():
        low, high = (exponent(number(0.0, way, log=log)) for way in ("down", "up"))
        assert low <= log / math.log(10) <= high and low < high


# Thresholds --------------------------------------------------------------------------------------


def asked(successes=None, **uppers):
    """What a judgement asks for, from the numbers given."""
    entry = SimpleNamespace(upper=None, lower=0.0, value=None)
    known = {kind: SimpleNamespace(upper=u, lower=u, value=u) for kind, u in uppers.items()}
    return SimpleNamespace(
        entry=lambda kind, *at: known.get(kind, entry),
        success=(successes or {}).get,
        run=RUN,
        record=risk.record(),
    )


@pytest.mark.parametrize(
    ("epsilon", "power", "verdict"),
    [
        (0.999, 0.5, "strong protection"),
        (1.001, 0.5, "reasonable protection"),
        (9.99, 0.5, "reasonable protection"),
        (10.01, 0.5, "weak protection"),
        (10.01, 0.98, "weak protection"),
        (10.01, 0.991, "no protection"),
    ],
)
def test_membership_is_judged_as_its_sentence_says(epsilon, power, verdict):
    found = words._membership(asked(epsilon=epsilon, power=power))
    assert found.verdict == verdict
    assert "up to 1 is called strong, up to 10 reasonable" in found.text


@pytest.mark.parametrize(
    ("ten", "million", "verdict"),
    [
        (0.1099, 1e-6, "hardly better than guessing"),
        (0.1101, 1e-6, "somewhat better than guessing"),
        (0.1899, 1e-6, "somewhat better than guessing"),
        (0.1901, 1e-6, "better than guessing"),
        (0.5499, 1e-6, "better than guessing"),
        (0.5501, 0.0899, "mostly right among a few"),
        (0.9999, 0.0901, "can be named"),
    ],
)
def test_naming_is_judged_at_its_thresholds(ten, million, verdict):
    found = words._matching(asked({10: ten, 1_000_000: million}))
    assert found.verdict == verdict
    assert "accept a re-identification risk of 9% (EMA" in found.text


@pytest.mark.parametrize(
    ("two", "attribute", "anonymity"),
    [(0.5499, "hardly", "speaks for it"), (0.5501, "somewhat", "doubtful"),
     (0.7499, "somewhat", "doubtful"), (0.7501, "largely", "no")],
)  # fmt: skip
def test_a_gain_is_slight_up_to_a_tenth_and_much_from_a_half(two, attribute, anonymity):
    numbers = {2: two, 10: 0.1, 1_000_000: 1e-6}
    assert words._attribute(asked(numbers)).verdict == attribute
    found = words._anonymity(asked(numbers, power=0.01))
    assert found.verdict == anonymity
    assert "at most a tenth, against it from a half on" in found.text


def test_the_sentence_on_false_alarms_is_about_one_outsider_in_a_hundred():
    at = []
    stub = asked(epsilon=1.0)
    power = SimpleNamespace(upper=0.1, lower=0.1)
    stub.entry = lambda kind, *point: at.append(point) or power
    text = words._membership(stub).text
    assert "one outsider in a hundred" in text and "a blind one recognises 1%" in text
    assert ("false_positive_rate", 0.01) in at


@pytest.mark.parametrize(
    ("bits", "verdict"),
    [(0.09, "next to nothing"), (0.99, "little"), (1.01, "more than one attribute"),
     (19.9, "more than one attribute"), (20.1, "possibly all of it")],
)  # fmt: skip
def test_one_bit_is_an_attribute_and_twenty_single_out_one_of_a_million(bits, verdict):
    stub = asked({2: 0.5, 10: 0.1, 1_000_000: 1e-6}, information_any_network=bits * math.log(2))
    found = words._any_attack(stub)
    assert found.verdict == verdict
    assert "attribute is one bit" in found.text and "takes 20 bits" in found.text


# Warnings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "warned"), [(10_000, True), (9_999, False)])
def test_a_delta_of_one_over_n_is_warned_of(size, warned):
    run = risk.training_run(
        noise_multiplier=1.0, sampling_rate=1.0, steps=1, delta=1e-4, dataset_size=size
    )
    assert any("is not below 1/n" in text for text in warnings_of(run)) == warned


@pytest.mark.parametrize(("typical", "warned"), [(0.0099, True), (0.0101, False)])
def test_values_below_a_hundredth_of_their_range_are_warned_of(typical, warned):
    record = risk.record(dimension=100, data_norm=10 * typical, data_range=1.0)
    assert any("same units" in text for text in warnings_of(RUN, record)) == warned


def test_what_shuffling_costs_at_most_is_rounded_up():
    for steps in range(10, 20):
        run = risk.training_run(noise_multiplier=3.0, sampling_rate=0.1, steps=steps)
        (warning,) = warnings_of(run)
        shown = float(re.search(r"epsilon is at most ([\d.]+),", warning)[1])
        epochs = math.ceil(steps / 10)
        most = risk.assess(risk.training_run(noise_multiplier=3.0, sampling_rate=1.0, steps=epochs))
        assert shown >= most["epsilon"].upper
