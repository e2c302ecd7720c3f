"""The statements of the pages that claim results, each by a route of its own and attacked.

Nothing here calls what an exhibit calls: NumPy, SciPy, stored and recorded tables, and data. A row
of ``data/companion/headlines.csv`` holds the statement, whose words stand in its page, and what
the adversary may choose; the test of the row's name lets it choose, and fails where it makes the
statement false. A statement of several pages has a row for each and one test.
"""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import fft, optimize, special, stats
from skimage import data as skimage_data

from reconrisk import datasets

ROOT = Path(__file__).parents[2]
HEADLINES = pd.read_csv(ROOT / "data/companion/headlines.csv", keep_default_na=False)
RECORDED, TABLES = ROOT / "data/recorded/beyond", ROOT / "tests/tables/beyond"
EXHIBITS = set(
    pd.concat(
        [pd.read_csv(ROOT / f"data/{of}/exhibits.csv")["id"] for of in ("paper", "companion")]
    )
)
PAPERS = ("mean_to_extreme", "ziller2024", "hayes2023", "biswas2024", "liu2024")


def _letters(text: str) -> str:
    """Return what a reader reads, as letters and digits alone."""
    text = re.sub(r"\{[\w:]+\}`([^`<]*?)\s*(<[^>]*>)?`", r"\1", text)
    text = re.sub(r"\\hat\s*X", "X_hat", text).replace("varepsilon", "epsilon")
    return "".join(re.findall(r"[a-z0-9]", text.lower()))


def _page(name: str) -> str:
    return (ROOT / ("README.md" if name == "README" else f"book/{name}.md")).read_text("utf-8")


def test_every_finding_has_a_row_and_a_test():
    found = HEADLINES["id"][
        HEADLINES["id"].str.startswith("found-") & (HEADLINES["page"] == "index")
    ]
    assert re.findall(r"\((found-[a-z]+)\)=", _page("index")) == list(found)
    tests = {f"test_{name.replace('-', '_')}" for name in HEADLINES["id"]}
    assert tests <= set(globals())
    assert set(HEADLINES["exhibit"]) <= EXHIBITS
    assert not HEADLINES.duplicated(["id", "page"]).any()
    pages = {"index", "tour", "README", *(f"papers/{paper}" for paper in PAPERS)}
    assert set(HEADLINES["page"]) == pages


@pytest.mark.parametrize("row", list(HEADLINES.itertuples()), ids=lambda r: f"{r.page}:{r.id}")
def test_the_page_says_so(row):
    page = _letters(_page(row.page))
    for part in row.statement.split(" ... "):
        assert _letters(part) in page, part


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
        # the adversary turns brightness and contrast, copy by copy: the law stays
        copies = rng.uniform(0.1, 9.0, (20_000, 1)) * copies + rng.uniform(-9.0, 9.0, (20_000, 1))
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


def _losses(
    sigma: float, rate: float, steps: int, width: float = 2e-3
) -> tuple[np.ndarray, np.ndarray]:
    """Return losses of sub-sampled Gaussian steps and their masses with the record, by FFT."""
    size = 2**17
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
    # lost to who has a list, safe from paper A's attacker, who knows the steps and averages them,
    # and still if shrunken by the best factor: other digits' mean errs less
    digits = _digits(4000)
    variance = digits.var(axis=0).mean()
    counts = np.maximum(rng.binomial(steps, rate, len(digits)), 1)
    copies = sigma**2 * np.sum(digits**2, axis=1) / counts
    shrunken = copies / (1 + digits.shape[1] * sigma**2 / counts)
    assert bound > 4 * 0.1
    assert copies.mean() > 10 * variance and shrunken.mean() > 1.2 * variance


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
    # the filter takes every record to be as long as others are: it is told no factor
    length = np.mean(np.linalg.norm(others, axis=1))
    share = values / (values + (sigma * length) ** 2)
    errors = []
    for image in targets[:200]:
        release = image / np.linalg.norm(image) + sigma * rng.standard_normal(image.size)
        copy = np.linalg.norm(image) * release
        filtered = mean + axes @ (share * (axes.T @ (length * release - mean)))
        errors.append([np.mean((one - image) ** 2) for one in (copy, mean, filtered)])
    copy_error, mean_error, filtered = np.mean(errors, axis=0)
    assert copy_error / mean_error == pytest.approx(13.0, rel=0.15)
    assert filtered / mean_error == pytest.approx(0.5, abs=0.06)
    # whoever is told the factor, looks the norm up
    norms = np.sort(np.linalg.norm(images, axis=1))
    assert np.mean(np.diff(norms) > 1e-9 * norms[1:]) > 0.999


# --- paper A and B: the law of a copy ----------------------------------------------------------


def _copies(image: np.ndarray, rows: int, norm: float, sigma: float, count: int, rng):
    """Return copies by the clipped, noised and averaged gradient of a layer of equal rows."""
    gradient = np.tile(image, (rows, 1))
    factor = min(1.0, norm / np.linalg.norm(gradient))
    noise = norm * sigma * rng.standard_normal((count, *gradient.shape))
    return (factor * gradient + noise).mean(axis=1) / factor


def test_law_of_the_copy():
    rng = np.random.default_rng(6)
    digit = _digits(1)[0].reshape(28, 28)[::4, ::4].ravel()
    records = (digit, np.array([0.3, -2.0, 0.0, 1e-4]), np.eye(1, 16)[0], 1e3 * np.ones(3))
    for image in records:
        for rows, norm, sigma in ((1, 1e-5, 0.01), (7, 1e-3, 0.1), (40, 1e-2, 3.0)):
            copies = _copies(image, rows, norm, sigma, 3000, rng)
            assert norm <= np.linalg.norm(image)  # clipped, as the law has it
            squares = ((copies - image) ** 2).sum(axis=1) / (sigma * np.linalg.norm(image)) ** 2
            assert stats.kstest(squares, stats.chi2(image.size).cdf).pvalue > 1e-4
            # neither one degree of freedom less nor a noise 5% larger
            wrong = [stats.chi2(image.size - 1).cdf, stats.chi2(image.size, scale=1.1).cdf]
            assert all(stats.kstest(squares, law).pvalue < 1e-3 for law in wrong)


def test_rows_of_the_layer():
    # where no gradient is clipped, the clipping norm is the noise, and rows average it
    rng = np.random.default_rng(7)
    image = rng.random(48)
    sigma, rows = 5e-4, (1, 30, 3000)

    def errors(norm: float) -> list[float]:
        return [
            float(np.mean((_copies(image, m, norm, sigma, 40, rng) - image) ** 2)) for m in rows
        ]

    few, some, many = errors(100.0)
    assert few > 20 * some and few > 100 * many
    # the adversary chooses the clipping norm: with enough rows it changes nothing
    least = (sigma * np.linalg.norm(image)) ** 2
    assert many == pytest.approx(least, rel=0.1)
    assert errors(1e-4)[-1] == pytest.approx(least, rel=0.1)
    assert errors(1e-4)[0] == pytest.approx(least, rel=0.3)


def test_bits_without_a_prior():
    """Whole pixels through a linear layer, or their first bits through units of their own."""
    picture = np.asarray(skimage_data.astronaut(), float)[::2, ::2] / 255
    pixels = picture.ravel()
    n = pixels.size
    sigma = 5e-4 * np.sqrt(150_528 / n)  # Figure 1's
    # a unit's gradient is one for a bit and minus one for its opposite: energies add up to one
    count = 5
    weights = 0.5 ** np.arange(1, count + 1)

    def error(logs: np.ndarray) -> float:
        amplitude = np.sqrt(special.softmax(logs) / n) / sigma
        return float(np.sum(weights**2 * stats.norm.sf(amplitude)))

    logs = optimize.minimize(error, np.linspace(1, -1, count), method="Nelder-Mead").x
    amplitude = np.sqrt(special.softmax(logs) / n)
    rng = np.random.default_rng(8)
    whole = np.minimum((pixels * 2**count).astype(int), 2**count - 1)
    bits = (whole[:, None] >> np.arange(count)[::-1]) & 1
    signs = np.where(bits, 1.0, -1.0) * amplitude + sigma * rng.standard_normal(bits.shape)
    assert np.linalg.norm(np.where(bits, 1.0, -1.0) * amplitude) == pytest.approx(1.0)
    decoded = (signs > 0) @ weights + weights[-1] / 2
    of_bits = np.mean((decoded - pixels) ** 2)
    # the adversary's linear layers without a prior: any grey offset, any shrinkage, clipped
    linear = []
    for offset in np.linspace(0.0, 1.0, 21):
        centred = pixels - offset
        scale = np.linalg.norm(centred)
        copy = centred + sigma * scale * rng.standard_normal(n)
        for factor in (1.0, 1.0 / (1.0 + n * sigma**2)):
            linear.append(np.mean((np.clip(offset + factor * copy, 0, 1) - pixels) ** 2))
    assert of_bits < 0.5 * min(linear)
    # with a prior, of smooth pictures alone, a linear layer errs less than these bits
    coefficients = fft.dctn(picture - 0.5, norm="ortho")
    row, column, colour = np.indices(picture.shape)
    variance = (1.0 + np.hypot(row, column) + 8.0 * colour) ** -2.0
    variance *= np.sum(coefficients**2) / np.sum(variance)

    def energies(log_level: float) -> np.ndarray:
        return np.maximum(np.sqrt(variance) / np.exp(log_level) - 1.0, 0.0)

    level = optimize.brentq(lambda at: energies(at).sum() - sigma**-2, -20.0, 0.0)
    gain = np.sqrt(energies(level) / variance)
    sent = gain * coefficients
    noise = sigma * np.linalg.norm(sent)
    received = sent + noise * rng.standard_normal(sent.shape)
    filtered = received * gain * variance / (gain**2 * variance + noise**2)
    rebuilt = fft.idctn(filtered, norm="ortho")
    assert np.mean((np.clip(0.5 + rebuilt, 0, 1) - picture) ** 2) < of_bits


def _printed(paper: str, exhibit: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / f"data/paper/{paper}/{exhibit}.csv", dtype={"printed": str})


def test_table_of_the_projection():
    """Its cells, and what the paper's own attacker, told N and sigma, does to "Min" and "Max"."""
    table = _printed("ziller2024", "table1")
    beaten = 0
    for row in table.itertuples():
        norm, n, steps = row.C_max_grad_norm, row.N_dimension, int(row.T_steps)
        sigma = row.sigma_noise_multiplier / np.sqrt(steps)
        if row.metric == "worst_case_matching_success":
            rate, kappa = row.sampling_rate_percent / 100, row.kappa_prior_probability
            value = 100 * _matching(row.sigma_noise_multiplier, rate, steps, kappa)
        elif row.metric == "min_E_MSE":
            value = (norm * sigma) ** 2
            beaten += (norm * sigma) ** 2 / (1 + n * sigma**2) < 0.5 * row.value
        elif row.metric == "max_E_PSNR":
            value = -20 * np.log10(norm * sigma)
        else:
            value = 100 / np.sqrt(1 + n * sigma**2)
        shown = float(
            re.sub(r"\\%|\\cdot 10\^\{|\}", lambda m: "e" if "10" in m[0] else "", row.printed)
        )
        last = 0.5 * 10.0 ** -len(row.printed.partition(".")[2].split("\\")[0])
        scale = shown / float(row.printed.split("\\")[0]) if "cdot" in row.printed else 1.0
        assert abs(value - shown) <= 1.01 * last * scale, (row.row_index, row.metric)
    assert beaten >= 10


def _matching(sigma: float, rate: float, steps: int, kappa: float) -> float:
    if rate == 1:
        return float(stats.norm.cdf(stats.norm.ppf(kappa) + np.sqrt(steps) / sigma))
    return _success(*_losses(sigma, rate, steps), kappa)


def test_small_dimensions_exceed_the_printed_bounds():
    """Jensen's inequality for the PSNR, and the NCC as a ratio of expectations."""
    rng = np.random.default_rng(9)
    for n, above in ((2, 1.5), (10, 0.3)):
        image = np.r_[1.0, -1.0, np.zeros(n - 2)] / np.sqrt(2)
        copies = image + rng.standard_normal((400_000, n))
        psnr = -10 * np.log10(((copies - image) ** 2).mean(axis=1))
        assert psnr.mean() - 4 * psnr.std() / np.sqrt(len(psnr)) > above > 0.0
        copies -= copies.mean(axis=1, keepdims=True)
        ncc = copies @ image / np.linalg.norm(copies, axis=1)
        assert ncc.mean() - 4 * ncc.std() / np.sqrt(len(ncc)) > 1 / np.sqrt(1 + n)
    # at the size of a picture, the best defence, nothing of either is left
    n = 150_528
    assert 10 / np.log(10) * (np.log(n / 2) - special.digamma(n / 2)) < 1e-4


# --- paper C -----------------------------------------------------------------------------------


def test_bounds_of_table2():
    table = _printed("hayes2023", "table2")
    ours = table[table["method"] == "Ours"]
    n, sigma = ours["prior_size"], ours["sigma_noise_multiplier"]
    level = stats.norm.ppf(1 / n)
    exact = (stats.norm.cdf(level + 1 / sigma) - 1 / n) / (1 - 1 / n)
    # the noise of a mean of 100,000 likelihood ratios below the level, as the paper samples them
    noise = np.sqrt(np.exp(sigma**-2.0) * stats.norm.cdf(-level - 2 / sigma) / 1e5)
    z = (np.abs(ours["value"] - exact) - 5e-4).clip(lower=0) / noise
    assert z.max() < 3 and z.mean() < 1.5
    for row in table[table["method"] != "Ours"].itertuples():
        sampled = "MC" in row.method
        value = _fano(row.prior_size, row.sigma_noise_multiplier, sampled)
        assert abs(value - row.value) <= (4e-3 if sampled else 5.1e-4), row


def _fano(n: int, sigma: float, sampled: bool) -> float:
    """Return the largest advantage that Fano's inequality leaves at the mutual information."""
    information = -np.log(1 / n + (1 - 1 / n) * np.exp(-1 / sigma**2))
    if sampled:
        noise = np.random.default_rng(10).standard_normal((50_000, n)) / sigma
        noise[:, 0] += 1 / sigma**2
        information = np.log(n) - np.mean(special.logsumexp(noise, axis=1) - noise[:, 0])

    def excess(success: float) -> float:
        entropy = special.entr(success) + special.entr(1 - success)
        return entropy + (1 - success) * np.log(n - 1) - np.log(n) + information

    success = optimize.brentq(excess, 1 / n, 1 - 1e-12) if excess(1 - 1e-12) < 0 else 1.0
    return (success - 1 / n) / (1 - 1 / n)


def _score_success(epsilon: float, models: int = 20_000) -> dict[str, float]:
    """Return how often each score names the right one of ten orthogonal gradients."""
    rate, steps = 0.02, 1000
    sigma = _noise_at(epsilon, 1e-5, rate, steps)
    rng = np.random.default_rng(11)
    scores: dict[str, list] = {}
    for there in (False, True):
        for _ in range(models // 1000):
            inner = sigma * rng.standard_normal((1000, steps))
            if there:
                inner += rng.random((1000, steps)) < rate
            count = round(rate * steps)
            ratios = np.log1p(rate * np.expm1((inner - 0.5) / sigma**2))
            for name, score in (
                ("sum", inner.sum(axis=1)),
                ("top", np.partition(inner, -count, axis=1)[:, -count:].sum(axis=1)),
                ("likelihood", ratios.sum(axis=1)),
            ):
                scores.setdefault(name, [[], []])[there].append(score)
    found = {}
    for name, both in scores.items():
        without, own = (np.sort(np.concatenate(one)) for one in both)
        below = np.searchsorted(without, own) / len(without)
        found[name] = float(np.mean(below**9))
    return found


def test_scores_on_orthogonal_gradients():
    for epsilon in (1.0, 4.0, 5.7, 8.0, 32.0):
        found = _score_success(epsilon)
        later = epsilon >= 5
        assert (found["top"] > found["sum"] + 0.005) == later, (epsilon, found)
        assert found["likelihood"] > max(found["top"], found["sum"]) - 0.005, (epsilon, found)


def test_attacks_at_epsilon_32():
    table = pd.read_csv(ROOT / "data/recorded/hayes2023/fig4/trained.csv").query("epsilon == 32")
    assert set(table["learning_rate"]) == {1.0}
    bound = _success(*_losses(_noise_at(32.0, 1e-5, 0.02, 1000), 0.02, 1000), 0.1)
    assert bound == pytest.approx(0.96, abs=0.005)
    shares = table.set_index("score")["success"]
    printed = {"likelihood": 0.88, "top": 0.70, "sum": 0.42}
    assert {s: float(f"{shares[s]:.2f}") for s in printed} == pytest.approx(printed, abs=0.0051)
    # trained gradients against orthogonal ones of full length, which no score exceeds here
    orthogonal = _score_success(32.0)
    error = {s: 4 * np.sqrt(0.25 / 1000) for s in printed}
    assert all(shares[s] < orthogonal[s] + error[s] and orthogonal[s] < bound for s in printed)


def test_short_gradients_of_unequal_length():
    rng = np.random.default_rng(12)
    sigma, trials, n = 0.4, 20_000, 10

    def success(lengths: np.ndarray) -> tuple[float, float]:
        """Return how often the sum score and the likelihood are right."""
        products = sigma * lengths * rng.standard_normal((trials, n))
        products[:, 0] += lengths[:, 0] ** 2
        hits = [(s.argmax(axis=1) == 0) for s in (products, products - 0.5 * lengths**2)]
        return float(hits[0].mean()), float(hits[1].mean())

    bound = stats.norm.cdf(stats.norm.ppf(0.1) + 1 / sigma)
    sums, likelihood = success(rng.uniform(0.2, 1.0, (trials, n)))
    assert sums < likelihood - 0.02 < likelihood < bound
    # the adversary makes them equally short: the score is as good as any, and all is lost for real
    sums, likelihood = success(np.full((trials, n), 0.5))
    assert sums == likelihood < bound - 0.1


def test_shares_of_pixels():
    rng = np.random.default_rng(13)
    images = rng.random((1_000_000, 16))
    fits = (np.abs(images - 0.5) <= 0.125).sum(axis=1)
    share = np.mean(fits >= 0.6 * 16)
    assert share == pytest.approx(1671e-6, abs=4 * np.sqrt(1.7e-3 / 1e6))
    assert share > 900 * 0.25 ** (0.6 * 16)
    # with all the pixels, what the paper prints, the power is right
    assert stats.binom.sf(783, 784, 0.25) == pytest.approx(0.25**784, rel=1e-6)
    assert stats.binom.sf(0.6 * 784 - 1, 784, 0.25) > 1e180 * 0.25 ** (0.6 * 784)


# --- paper D -----------------------------------------------------------------------------------


def test_compositions_of_table_iv():
    """The Gaussian's row is that of 1,407 steps, and with them the other row costs more."""
    rate = 128 / 60_000
    printed = _printed("biswas2024", "table4").pivot_table("value", "kappa_vmf", "metric")
    accounts = pd.read_csv(ROOT / "data/recorded/biswas2024/table4/columns.csv")
    assert len(printed) == len(accounts) == 15
    for (_, row), account in zip(printed.iterrows(), accounts.to_dict("records"), strict=True):
        at = {steps: _renyi_epsilon(row["sigma_gauss"], rate, steps) for steps in (3, 1407)}
        # printed multipliers are rounded
        assert at[1407] == pytest.approx(row["epsilon"], rel=0.03)
        assert at[3] < 0.85 * row["epsilon"]
        assert account["VMF, T = 3"] == pytest.approx(row["epsilon"], rel=0.03)
        assert account["VMF, T = 1407"] > 1.05 * row["epsilon"]


def _renyi_epsilon(sigma: float, rate: float, steps: int, delta: float = 1 / 60_000) -> float:
    """Return epsilon by Renyi divergences at Opacus' orders, by quadrature."""
    orders = np.r_[np.arange(1.1, 10.95, 0.1), np.arange(12.0, 64.0)]
    x = np.linspace(-12.0, orders[-1] / sigma + 12.0, 20_001)
    ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + x / sigma - 0.5 / sigma**2)
    log_density = stats.norm.logpdf(x) + np.log(x[1] - x[0])
    divergence = [special.logsumexp(o * ratio + log_density) / (o - 1) for o in orders]
    rest = np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    return float(np.min(steps * np.array(divergence) + rest))


def test_pairs_of_settings():
    rows = pd.read_csv(ROOT / "data/recorded/biswas2024/table2/rows.csv")
    for data in ("digits", "garments"):
        own = rows[rows["data"] == data].set_index("row")
        for sigma, kappa in ((1.23, 75), (0.174, 500)):
            gauss, vmf = own.loc[f"Gaussian, sigma = {sigma}"], own.loc[f"VMF, kappa = {kappa}"]
            # by both measures that the paper prints, and by the clipped picture's that it does not
            assert vmf["MSE"] - gauss["MSE"] > 3 * np.hypot(vmf["MSE error"], gauss["MSE error"])
            for measure in ("SSIM", "SSIM in [0, 1]"):
                error = np.hypot(vmf[f"{measure} error"], gauss[f"{measure} error"])
                assert gauss[measure] - vmf[measure] > 3 * error, (data, sigma, measure)


def test_equal_capacity():
    folder = RECORDED / "fair_order"
    points, pairs = (pd.read_csv(folder / f"{n}.csv") for n in ("points", "equal-capacity"))
    assert len(pairs) >= 30
    # the adversary chooses data, batch size and noise: Gaussian noise always leaves more
    assert (pairs["difference"] > 2 * pairs["error"]).all()
    assert (pairs["cosine Gaussian"] < pairs["cosine VMF"]).all()
    # what orders without exception is the angle, also across the two mechanisms
    for _, own in points.groupby(["data", "n"]):
        assert stats.spearmanr(own["cosine"], own["MSE"])[0] < -0.95


# --- paper E -----------------------------------------------------------------------------------

WIDTH, INPUTS, BATCH = 24, 5, 2


def _two_layers(rng: np.random.Generator):
    first = rng.standard_normal((WIDTH, INPUTS))
    last = rng.choice([-1.0, 1.0], WIDTH) / np.sqrt(WIDTH)
    records = rng.standard_normal((BATCH, INPUTS))
    records /= np.linalg.norm(records, axis=1, keepdims=True)
    return first, last, records, np.array([1.0, -1.0])


def _gradient(first, last, records, labels, kept=1.0) -> np.ndarray:
    """Return the gradient of half the squared error; columns: last layer, first layer."""
    hidden = np.tanh(records @ first.T)
    residuals = (hidden * kept) @ last - labels
    to_last = (residuals[:, None] * hidden * kept).sum(axis=0)
    back = residuals[:, None] * last * kept * (1 - hidden**2)
    return np.column_stack([to_last, back.T @ records])


def _after_steps(first, last, records, labels, steps: int = 3, rate: float = 0.5) -> np.ndarray:
    """Return the change of the weights after some steps of the client's."""
    start = np.column_stack([last, first])
    weights = start
    for _ in range(steps):
        weights = weights - rate * _gradient(weights[:, 1:], weights[:, 0], records, labels)
    return weights - start


def test_least_squares_through_defences():
    rng = np.random.default_rng(14)
    first, last, records, labels = _two_layers(rng)
    kept = (rng.random(WIDTH) < 0.7).astype(float)
    whole = _gradient(first, last, records, labels)

    def pruned(share: float) -> np.ndarray:
        return np.abs(whole) >= np.quantile(np.abs(whole), share)

    def clip(x, factor):
        return factor * _gradient(first, last, x, labels)

    everything = np.ones_like(whole, dtype=bool)
    defences = {
        "clipping": (clip, 0.01 * whole, everything),
        "dropout": (
            lambda x, _: _gradient(first, last, x, labels, kept),
            _gradient(first, last, records, labels, kept),
            everything,
        ),
        "local steps": (
            lambda x, _: _after_steps(first, last, x, labels),
            _after_steps(first, last, records, labels),
            everything,
        ),
        "pruning": (clip, whole, pruned(0.7)),
        "pruning of nearly all": (clip, whole, pruned(0.95)),
    }
    for name, (forward, seen, mask) in defences.items():
        unknown = name == "clipping"

        def misfit(z, forward=forward, seen=seen, mask=mask, unknown=unknown):
            x, factor = z[:-1].reshape(records.shape), np.exp(z[-1]) if unknown else 1.0
            return ((forward(x, factor) - seen) / np.abs(seen).max())[mask]

        errors = []
        for _ in range(3):
            start = records + 0.25 * rng.standard_normal(records.shape)
            start = np.r_[start.ravel(), np.log(0.02) if unknown else 0.0]
            fit = optimize.least_squares(misfit, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
            errors.append(np.abs(fit.x[:-1] - records.ravel()).max())
        # the adversary prunes on, until fewer entries are left than the records have values
        gone = mask.sum() < records.size
        assert gone == (name == "pruning of nearly all")
        assert (min(errors) > 1e-3) if gone else (min(errors) < 1e-6), (name, errors)


def test_biased_attacks_go_below_cramer_rao():
    rng = np.random.default_rng(15)
    first, last, records, labels = _two_layers(rng)
    step = 1e-6
    jacobian = []
    for at in np.eye(records.size):
        ends = [
            _gradient(first, last, records + sign * step * at.reshape(records.shape), labels)
            for sign in (1, -1)
        ]
        jacobian.append((ends[0] - ends[1]).ravel() / (2 * step))
    unit = np.trace(np.linalg.inv(np.array(jacobian) @ np.array(jacobian).T)) / BATCH
    pseudo = np.linalg.pinv(np.array(jacobian).T)
    for bound in (0.1, 0.5, 2.0):
        noise = np.sqrt(bound / unit) * rng.standard_normal((20_000, pseudo.shape[1]))
        unbiased = records.ravel() + noise @ pseudo.T
        errors = [
            np.mean(((c * unbiased - records.ravel()) ** 2).sum(axis=1)) / BATCH
            for c in (1.0, 1.0 / (1.0 + bound))
        ]
        assert errors[0] == pytest.approx(bound, rel=0.05)
        assert errors[1] < 0.97 * bound
        # zero, which looks at nothing, is off by one: the norm of a record
        assert (1.0 < bound) == (bound == 2.0)


def test_columns_of_tables_7_and_8():
    """No small set of errors has the four printed moments of most cells."""
    rng = np.random.default_rng(16)
    possible = cells = 0
    for name in ("table7", "table8"):
        table = pd.read_csv(ROOT / f"data/paper/liu2024/{name}.csv").drop_duplicates()
        keys = ["attack_batch_size", "defense", "parameter_value"]
        for _, cell in table.groupby(keys, dropna=False):
            moments = cell.set_index("metric")[["value", "sd"]]
            if not {"RMSE", "PSNR"} <= set(moments.index) or len(moments) > 2:
                continue
            cells += 1
            possible += _has_errors(*moments.loc["RMSE"], *moments.loc["PSNR"], rng)
    assert cells >= 40
    assert possible < 0.4 * cells, (possible, cells)


def _has_errors(mean: float, sd: float, psnr: float, psnr_sd: float, rng) -> bool:
    """Return whether the adversary finds errors of pixels in [0, 1] with these moments."""
    half = np.array([0.005, 0.005, 0.05, 0.05])

    def misfit(z: np.ndarray) -> np.ndarray:
        weights, errors = special.softmax(z[:6]), special.expit(z[6:])
        decibels = -20 * np.log10(np.maximum(errors, 1e-12))
        found = []
        for values in (errors, decibels):
            centre = weights @ values
            found += [centre, np.sqrt(weights @ (values - centre) ** 2)]
        excess = np.abs(np.array(found) - [mean, sd, psnr, psnr_sd]) / half
        return np.maximum(excess - 1.0, 0.0)

    for _ in range(4):
        start = np.r_[rng.standard_normal(6), special.logit(mean) + rng.standard_normal(6)]
        if np.abs(optimize.least_squares(misfit, start, max_nfev=60).fun).max() < 1e-6:
            return True
    return False


# --- the README, and the first page's picture --------------------------------------------------


def test_readme_image():
    n, sigma, norm, threshold = 150_528, 0.001, 150.0, 0.019
    along = np.linspace(-12, 12, 4001)  # the noise along the image; that across is chi-squared

    def chance(most_across: np.ndarray) -> float:
        return float(
            np.trapezoid(stats.norm.pdf(along) * stats.chi2.cdf(most_across, n - 1), along)
        )

    def within(factor: float) -> float:
        """Chance that the copy times a factor is as near as the threshold."""
        missed = (1 - factor - factor * sigma * along) ** 2
        left = n * threshold / norm**2 - missed
        return chance(np.maximum(left, 0) / (factor * sigma) ** 2)

    # nobody does better than the largest cosine that a point at this distance can have
    most = math.tan(math.asin(math.sqrt(n * threshold) / norm))
    best = chance((most * (1 + sigma * along) / sigma) ** 2)
    assert -15.5 < math.log10(best) <= -15
    shrunken = 1 / (1 + n * sigma**2)
    assert within(1.0) == 0 < within(shrunken) <= best
    errors = [(1 - c) ** 2 * norm**2 / n + (c * sigma * norm) ** 2 for c in (1.0, shrunken)]
    assert errors == pytest.approx([0.0225, 0.0196], abs=5e-5)


def test_readme_names():
    rate, steps = 256 / 60_000, 15 * 60_000 // 256 + 1
    success = {s: _success(*_losses(s, rate, steps, 2e-4), 0.1) for s in (0.72, 0.722, 1.1)}
    assert success[1.1] == pytest.approx(0.16, abs=0.005)
    assert success[0.722] <= 0.25 < success[0.72]
    # the most powerful test on the run's own sums names as many, and no more
    rng = np.random.default_rng(17)
    ratios = []
    for there in (False, True):
        sums = 1.1 * rng.standard_normal((6000, steps))
        sums += there * (rng.random(sums.shape) < rate)
        ratios.append(np.log1p(rate * np.expm1((sums - 0.5) / 1.1**2)).sum(axis=1))
    power = np.mean(ratios[1] > np.quantile(ratios[0], 0.9))
    assert power == pytest.approx(success[1.1], abs=0.02)


def test_ten_seconds():
    """The share named from the release alone falls with the list's length to what is printed."""
    rng = np.random.default_rng(18)
    images = _digits(4000)
    directions = images / np.linalg.norm(images, axis=1, keepdims=True)
    own = rng.integers(len(images), size=1000)
    released = directions[own] + 0.1 * rng.standard_normal((1000, images.shape[1]))
    # the best a list of directions allows is the nearest: nothing else is known of the record
    margins = released @ directions.T - np.sum(released * directions[own], axis=1)[:, None]
    nearer = (margins > 1e-9).sum(axis=1)
    # the share of lists of n images with the record that hold none of those
    sizes = np.array([500, 1000, 2000, 4000])
    none = [stats.hypergeom(len(images) - 1, nearer, n - 1).pmf(0) for n in sizes]
    named = np.mean(none, axis=1)
    longer = np.polyval(np.polyfit(np.log(sizes), named, 1), np.log(21_000))
    record = pd.read_csv(RECORDED / "priors/named.csv").set_index("sigma").loc[0.1]
    assert f"{record['release alone']:.0%}" == "87%"
    assert longer == pytest.approx(record["release alone"], abs=0.05)
    # and nobody exceeds the bound
    assert max(named) < stats.norm.cdf(stats.norm.ppf(1 / 4000) + 10)
    test_found_knowledge()
