"""Layers that send bits: exact without noise, and with the errors that theory gives them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import fft, integrate, optimize, stats

from reconrisk import DPSGD, attacks
from reconrisk.attacks import polar_codes as polar
from reconrisk.models import sum_of_outputs
from reconrisk.training import single_record_steps


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _levels(count: int, seed: int = 0) -> torch.Tensor:
    """Records whose bits are independent and uniform."""
    return torch.randint(256, (1, count), generator=_generator(seed)).double() / 255


# --- bits by themselves ------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 3, 8, 16])
def test_bits_are_those_of_the_levels_and_give_them_back(depth):
    levels = np.unique(np.linspace(0, 2**depth - 1, 300).round())
    values = torch.as_tensor(levels / (2**depth - 1))
    bits = attacks.pixel_bits(values, depth)
    plain = [[int(c) for c in f"{int(level):0{depth}b}"] for level in levels]
    assert bits.T.tolist() == plain
    torch.testing.assert_close(attacks.pixels_from_bits(bits), values, rtol=0, atol=1e-15)


def test_the_least_error_of_a_sign_is_that_of_quadrature():
    for energy in (1e-3, 0.3, 1.0, 7.0, 40.0):
        root = math.sqrt(energy)
        plain, _ = integrate.quad(
            lambda y, s=energy, r=root: 2 / (1 + math.exp(2 * (s + r * y))) * stats.norm.pdf(y),
            -12,
            12,
            epsabs=0,
            epsrel=1e-11,
            limit=400,
        )
        assert attacks.binary_mmse(energy) == pytest.approx(plain, rel=1e-9)
    assert attacks.binary_mmse(0.0) == pytest.approx(1, abs=1e-15)
    # far out: exp(-s/2) sqrt(pi / (2 s)), up to 1/s
    asymptote = math.exp(-500) * math.sqrt(math.pi / 2000)
    assert attacks.binary_mmse(1000.0) == pytest.approx(asymptote, rel=5e-3)


@pytest.mark.parametrize("energy", [1e-9, 0.05, 2.0, 26.6, 300.0, 1e6, 1e10])
def test_energies_add_up_and_no_exchange_of_energy_is_better(energy):
    best = attacks.bit_energies(energy)
    assert best.sum() == pytest.approx(energy, rel=1e-12)
    assert (np.diff(best) <= 1e-9 * energy).all()
    least = attacks.expected_mse_of_bits(best)
    for source in range(8):
        for goal in range(8):
            moved = best.copy()
            step = 1e-3 * moved[source]
            moved[source] -= step
            moved[goal] += step
            assert attacks.expected_mse_of_bits(moved) >= least * (1 - 1e-12)


def test_the_gradient_of_a_real_step_is_phi():
    record = _levels(50)
    run = DPSGD(1e-12, max_grad_norm=3.0)
    amplitudes = torch.as_tensor(attacks.bit_amplitudes(DPSGD(0.02, max_grad_norm=3.0), 50))
    spread = amplitudes.repeat_interleave(50)
    layer = attacks.BitLayer(lambda x: attacks.pixel_bits(x).flatten(-2), spread)
    gradient, factor = single_record_steps(layer, sum_of_outputs, record, run, _generator())
    phi = spread * (2 * attacks.pixel_bits(record).flatten() - 1)
    torch.testing.assert_close(gradient["weight"][0, 0], phi, rtol=0, atol=1e-6)
    assert float((phi**2).sum()) == pytest.approx(run.max_grad_norm**2, rel=1e-12)
    assert float(factor[0]) == pytest.approx(1, abs=1e-12)


def test_several_records_take_a_step_each():
    records = torch.cat([_levels(20, 1), _levels(20, 2)])
    rebuilt = attacks.bits_attack(records, DPSGD(1e-4), _generator())
    torch.testing.assert_close(rebuilt, records, rtol=0, atol=1e-12)


@pytest.mark.parametrize("energy", [12.5, 2.0, 0.125, 1e-4])
def test_measured_errors_are_those_expected(energy):
    record = _levels(400_000)
    run = DPSGD(1 / math.sqrt(record.numel() * energy), max_grad_norm=7.0)
    squares = ((attacks.bits_attack(record, run, _generator(1)) - record) ** 2).numpy().ravel()
    error = squares.std() / math.sqrt(squares.size)
    energies = attacks.bit_energies(energy)
    expected = attacks.expected_mse_of_bits(energies, record.numpy())
    assert squares.mean() == pytest.approx(expected, abs=4 * error)
    assert expected == pytest.approx(attacks.expected_mse_of_bits(energies), rel=0.02)


def test_the_expected_error_of_a_record_averages_to_that_of_uniform_bits():
    energies = attacks.bit_energies(12.0, depth=4)
    every = np.arange(16) / 15
    assert attacks.expected_mse_of_bits(energies, every) == pytest.approx(
        attacks.expected_mse_of_bits(energies), rel=1e-12
    )


def test_the_share_of_wrong_bits_is_that_of_a_gaussian_tail():
    count, sigma = 100_000, 1e-3
    record = _levels(count)
    amplitudes = attacks.bit_amplitudes(DPSGD(sigma), count)
    spread = torch.as_tensor(amplitudes).repeat_interleave(count)
    layer = attacks.BitLayer(lambda x: attacks.pixel_bits(x).flatten(-2), spread)
    seen, _ = single_record_steps(layer, sum_of_outputs, record, DPSGD(sigma), _generator())
    decided = (seen["weight"][0, 0] > 0).reshape(8, count)
    wrong = (decided != attacks.pixel_bits(record)[0].bool()).double().mean(dim=1).numpy()
    tail = stats.norm.sf(amplitudes / sigma)
    assert (np.abs(wrong - tail) <= 4 * np.sqrt(tail * (1 - tail) / count)).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: attacks.bits_attack(torch.rand(5), DPSGD(1.0), _generator()),
        lambda: attacks.bits_attack(2 + torch.rand(1, 5), DPSGD(1.0), _generator()),
        lambda: attacks.coded_attack(-torch.rand(1, 5), DPSGD(1.0), _generator()),
        lambda: attacks.pixel_bits(torch.rand(5), 17),
        lambda: attacks.bit_energies(-1.0),
        lambda: attacks.bit_energies(math.inf),
        lambda: attacks.expected_mse_of_bits([1.0, -1.0]),
        lambda: attacks.BitLayer(lambda x: x, torch.tensor([-1.0])),
        lambda: attacks.bhattacharyya(12, 1.0),
        lambda: attacks.polar_code(0.0, 10),
        lambda: attacks.polar_code(1.0, 10, failure=1.0),
        lambda: attacks.laplace_cells(15),
        lambda: attacks.transform_prior(np.zeros((1, 4, 4, 3))),
        lambda: attacks.transform_prior(np.zeros((4, 4, 3))),
    ],
)
def test_bad_arguments_raise(call):
    with pytest.raises(ValueError, match="must"):
        call()


# --- the code ----------------------------------------------------------------------------------


def test_parameters_of_an_erasure_channel_add_up():
    """The recursion is exact for erasures, whose probabilities keep their mean."""
    z = attacks.bhattacharyya(1024, 0.7)
    assert z.mean() == pytest.approx(math.exp(-0.35), rel=1e-12)
    assert z[-1] == pytest.approx(math.exp(-0.35 * 1024), rel=1e-9)


def _by_hand(code, llr):
    """Successive cancellation bit by bit, by the textbook's recursion."""
    frozen = np.ones(code.length, dtype=bool)
    frozen[code.information] = False

    def ratio(bits, values):
        if len(values) == 1:
            return values[0]
        half = len(values) // 2
        a, b = values[:half], values[half:]
        if len(bits) < half:
            combined = [
                2 * np.arctanh(np.tanh(x / 2) * np.tanh(y / 2)) for x, y in zip(a, b, strict=True)
            ]
            return ratio(bits, combined)
        word = encoded(bits[:half])
        moved = [y + (1 - 2 * c) * x for x, y, c in zip(a, b, word, strict=True)]
        return ratio(bits[half:], moved)

    def encoded(bits):
        if len(bits) == 1:
            return bits
        half = len(bits) // 2
        first, second = encoded(bits[:half]), encoded(bits[half:])
        return [x ^ y for x, y in zip(first, second, strict=True)] + second

    bits: list[int] = []
    for position in range(code.length):
        bits.append(0 if frozen[position] else int(ratio(bits, llr) < 0))
    return [bits[i] for i in code.information]


def test_decoding_is_successive_cancellation():
    code = attacks.polar_code(energy=20.0, bits=12, length=16, failure=0.9)
    assert code is not None and 4 < code.bits
    generator = _generator(3)
    for _ in range(20):
        message = torch.randint(2, (code.bits,), generator=generator).double()
        sent = math.sqrt(code.energy) * (2 * attacks.polar_encode(code, message) - 1)
        received = sent + torch.randn(sent.shape, generator=generator, dtype=torch.float64)
        llr = (-2 * math.sqrt(code.energy) * received).numpy()
        plain = [bit for block in llr for bit in _by_hand(code, list(block))]
        assert attacks.polar_decode(code, received).tolist() == plain


@pytest.mark.parametrize("energy", [1.0, 4.0, 10.0])
def test_the_bound_on_one_uncoded_bit_is_above_its_error_and_near_it(energy):
    code = attacks.polar_code(energy, bits=1, length=1, failure=0.5, most_values=1)
    assert code is not None
    exact = stats.norm.sf(math.sqrt(energy))
    assert exact < code.error_bound < 6 * exact
    assert code.error_bound == pytest.approx(math.exp(-energy / 2) / 2)


def test_blocks_fail_no_more_often_than_the_bound_says():
    code = attacks.polar_code(energy=70.0, bits=20, length=128, failure=0.05)
    assert code is not None and code.blocks == 1 and 0.01 < code.error_bound <= 0.05
    message = torch.randint(2, (4000, code.bits), generator=_generator()).float()
    sent = math.sqrt(code.energy) * (2 * attacks.polar_encode(code, message) - 1)
    received = sent + torch.randn(sent.shape, generator=_generator(1))
    wrong = (attacks.polar_decode(code, received) != message).any(dim=1).double().mean()
    assert 0 < wrong < code.error_bound


def test_a_code_spends_the_energy_and_keeps_within_its_values():
    for energy in (30.0, 1e3, 1e5):
        code = attacks.polar_code(energy, 10**6, length=1024, most_values=2**18)
        assert code is not None
        assert code.values * code.energy == pytest.approx(energy, rel=1e-12)
        assert code.values <= 2**18 and code.error_bound <= 1e-3
    assert attacks.polar_code(1.0, 10) is None


def test_the_energy_of_a_bit_tends_to_two_from_above():
    each = []
    for length in (2**10, 2**14, 2**18):
        code = attacks.polar_code(length / 4, 10**9, length=length, most_values=length)
        assert code is not None
        each.append(length / 4 / code.bits)
    assert each[0] > each[1] > each[2] > 2


def test_the_transform_is_its_own_inverse():
    word = torch.randint(2, (3, 64), generator=_generator()).double()
    torch.testing.assert_close(polar._transform(polar._transform(word)), word)


def test_coded_bits_survive_where_single_ones_do_not():
    record = _levels(3000)
    run = DPSGD(1 / math.sqrt(3000 * 8 * 4.5))
    coded, code = attacks.coded_attack(record, run, _generator(), length=8192)
    assert code is not None and code.bits >= 8 * 3000
    torch.testing.assert_close(coded, record, rtol=0, atol=1e-12)
    assert float(((attacks.bits_attack(record, run, _generator()) - record) ** 2).mean()) > 1e-5


def test_what_the_code_leaves_out_counts_one_half():
    record = _levels(3000)
    rebuilt, code = attacks.coded_attack(record, DPSGD(0.05), _generator(), length=1024)
    assert code is not None and code.bits < 3000
    assert (rebuilt[0, code.bits :] == 0.5).all()
    assert ((rebuilt > 0.5) == (record > 0.5))[0, : code.bits].all()
    nothing, code = attacks.coded_attack(record, DPSGD(3.0), _generator(), length=1024)
    assert code is None
    assert (nothing == 0.5).all()


# --- transform coefficients --------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 2, 5, 10])
def test_cells_have_the_means_and_the_error_of_laplace_draws(bits):
    values, error = attacks.laplace_cells(bits)
    draws = np.random.default_rng(0).laplace(scale=math.sqrt(0.5), size=400_000)
    cell = np.floor(2**bits * stats.laplace.cdf(draws / 3, scale=math.sqrt(0.5))).astype(int)
    squares = (draws - values[cell.clip(0, 2**bits - 1)]) ** 2
    assert squares.mean() == pytest.approx(error, abs=4 * squares.std() / math.sqrt(draws.size))
    # Panter and Dite: 9/2 of the variance over 4^bits
    assert 4.0**bits * error < 4.5
    if bits == 10:
        assert 4.0**bits * error == pytest.approx(4.5, rel=0.02)


def test_errors_fall_less_with_every_bit():
    errors = np.array([attacks.laplace_cells(b)[1] for b in range(15)])
    gains = errors[:-1] - errors[1:]
    assert (gains > 0).all() and (np.diff(gains) < 0).all()


def test_bits_go_where_they_gain_most():
    shares = attacks.allocate_bits([4.0, 1.0, 0.25], 6)
    errors = [attacks.laplace_cells(b)[1] for b in range(7)]
    best = min(
        (16 * errors[a] + errors[b] + errors[6 - a - b] / 16, (a, b, 6 - a - b))
        for a in range(7)
        for b in range(7 - a)
    )
    assert tuple(shares) == best[1]
    assert attacks.allocate_bits([1.0, 2.0], 1000).tolist() == [14, 14]


def _smooth(count: int, side: int, seed: int = 0) -> np.ndarray:
    """Pictures of a few waves."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, side)
    waves = rng.normal(size=(count, 3, 4)) / (1 + np.arange(4))
    return np.clip(
        0.5 + 0.1 * np.einsum("nck,kx,ky->nxyc", waves, np.cos(np.outer(range(4), 3 * x)), [x] * 4),
        0,
        1,
    )


def test_without_noise_the_transform_copies_and_with_noise_it_beats_plain_bits():
    pictures = _smooth(6, 16)
    prior, record = attacks.transform_prior(pictures[1:]), torch.as_tensor(pictures[:1])
    exact, _ = attacks.transform_attack(record, DPSGD(1e-5), _generator(), prior, length=1024)
    assert float(((exact - record) ** 2).mean()) < 1e-6
    noise = DPSGD(0.03)
    rough, code = attacks.transform_attack(record, noise, _generator(), prior, length=1024)
    assert code is not None
    flat, _ = attacks.coded_attack(record.reshape(1, -1), noise, _generator(), length=1024)
    error = ((rough - record) ** 2).mean()
    assert error < 0.1 * ((flat - record.reshape(1, -1)) ** 2).mean()
    assert error < 0.1 * ((pictures[0] - pictures[1:].mean(axis=0)) ** 2).mean()


def test_linear_energies_leave_the_least_error():
    variances, energy = np.array([4.0, 1.0, 0.5, 1e-4]), 3.0
    found = optimize.minimize(
        lambda p: (variances / (1 + p)).sum(),
        np.full(4, energy / 4),
        bounds=[(0, energy)] * 4,
        constraints={"type": "eq", "fun": lambda p: p.sum() - energy},
    )
    energies = attacks.linear_energies(variances, energy)
    np.testing.assert_allclose(energies, found.x, atol=1e-3)
    assert energies.sum() == pytest.approx(energy)
    assert attacks.linear_energies([1.0, 1.0], 2.0).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("sigma", [0.02, 0.1])
def test_a_linear_layer_has_the_error_that_its_prior_expects(sigma):
    rng, std = np.random.default_rng(0), 0.5 / (1 + np.hypot(*np.ogrid[:32, :32]))[..., None]
    mean = np.zeros_like(std)
    mean[0, 0] = 16  # a grey of one half
    coefficients = mean + std * rng.standard_normal((32, *std.shape))
    pictures = torch.as_tensor(fft.idctn(coefficients, axes=(1, 2, 3), norm="ortho"))
    prior, run = attacks.TransformPrior(mean, std), DPSGD(sigma)
    found = attacks.linear_transform_attack(pictures, run, _generator(), prior)
    expected = (std**2 / (1 + attacks.linear_energies(std**2, 1 / sigma**2))).mean()
    # pictures' energies differ from the prior's, which costs a few per cent
    assert float((found - pictures).square().mean()) == pytest.approx(expected, rel=0.15)


def test_with_the_same_prior_a_linear_layer_beats_bits_without_one():
    pictures = _smooth(6, 16)
    prior, record = attacks.transform_prior(pictures[1:]), torch.as_tensor(pictures[:1])
    for run in (DPSGD(0.01), DPSGD(0.03)):
        linear = attacks.linear_transform_attack(record, run, _generator(), prior)
        bits = attacks.bits_attack(record.reshape(1, -1), run, _generator()).reshape(record.shape)
        assert (linear - record).square().mean() < 0.2 * (bits - record).square().mean()
    with pytest.raises(ValueError, match="pictures"):
        attacks.linear_transform_attack(record[:, :8], DPSGD(1.0), _generator(), prior)


def test_no_bit_leaves_the_mean_of_the_others():
    pictures = _smooth(6, 16)
    prior, record = attacks.transform_prior(pictures[1:]), torch.as_tensor(pictures[:1])
    rebuilt, code = attacks.transform_attack(record, DPSGD(5.0), _generator(), prior, length=1024)
    assert code is None
    mean = np.broadcast_to(pictures[1:].mean(axis=(0, 1, 2)), pictures[:1].shape)
    np.testing.assert_allclose(rebuilt.numpy(), mean, atol=1e-6)
    with pytest.raises(ValueError, match="pictures"):
        attacks.transform_attack(record[:, :8], DPSGD(1.0), _generator(), prior)
