"""The explorer against the library, in a real browser, and its page as a reader uses it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np
import pytest

from companion.book.explorer import SHOWN
from companion.study import registry
from reconrisk import DPSGD, bounds, privacy, risk

FILES = ("special", "bounds", "accountant", "report", "charts", "explorer")
PAGE = "book/explorer.html"
READY = "() => window.reconriskExplorer && window.reconriskExplorer.shown"
#: of the value, or of its logarithm where that is larger than one
CLOSE = 1e-9


@pytest.fixture(scope="module")
def library(browser) -> Iterator[object]:
    """An empty page with the explorer's scripts, as ``reconriskExplorer``."""
    page = browser.new_page()
    for name in FILES:
        page.add_script_tag(path=registry.project_root() / f"book/_static/explorer/{name}.js")
    yield page
    page.close()


def _settings(seed: int, count: int, sampled: bool) -> list[dict[str, float]]:
    """Random settings of the controls, as numbers that both languages read alike."""
    rng = np.random.default_rng(seed)

    def log(low: float, high: float) -> float:
        return float(f"{10 ** rng.uniform(low, high):.6g}")

    found = []
    for _ in range(count):
        sigma = log(-0.3, 1.5) if sampled else log(-1.5, 3)
        n = int(log(0.6, 7))
        norm = log(-1, 2)
        typical = (sigma * norm) ** 2
        setting = {
            "sigma": sigma,
            "q": log(-3, -0.2) if sampled else 1.0,
            "steps": int(log(0.5, 3.5)),
            "surprise": float(rng.choice([log(-0.4, 0.9), log(1.2, 3.3)])),
            "dimension": n,
            "norm": norm,
            "range": log(-1, 2),
            "clip": log(-2, 1),
            "contrast": float(rng.uniform(0.1, 1)),
            "mse": float(np.clip(typical * log(-1.5, 0.3), 1e-12, 1e6)),
            "psnr": float(rng.uniform(-10, 60)),
            "ncc": float(rng.uniform(-0.5, 0.98)),
            "delta": log(-12, -1),
            "fpr": log(-6, -0.2),
            "parameters": int(log(0.3, 5.5)),
            "pixels": float(rng.uniform(0.1, 1)),
        }
        found.append(setting)
    return found


def _report(s: dict[str, float], logs: bool) -> risk.Report:
    """The library's report of a setting; ``logs``: with the prior as a logarithm."""
    prior = -s["surprise"] * math.log(10)
    size = max(round(10 ** s["surprise"]), 2) if s["surprise"] <= 15 else None
    if size is not None:
        prior = -math.log(size)
    asked = risk.questions(
        false_positive_rates=(s["fpr"],),
        prior_sizes=() if logs or size is None else (size,),
        log_priors=(prior,) if logs or size is None else (),
        mse=(s["mse"],),
        psnr=(s["psnr"],),
        ncc=(s["ncc"],),
        pixel_shares=(s["pixels"],),
    )
    run = risk.training_run(
        noise_multiplier=s["sigma"], sampling_rate=s["q"], steps=s["steps"],
        max_grad_norm=s["clip"], parameters=s["parameters"], delta=s["delta"],
    )  # fmt: skip
    record = risk.record(
        dimension=s["dimension"], data_range=s["range"], data_norm=s["norm"],
        contrast=s["contrast"],
    )  # fmt: skip
    return risk.assess(run, record, asked)


def _close(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= CLOSE * max(abs(ours), abs(theirs)) + 1e-14


def _apart(entry: dict[str, float], theirs: risk.Entry, certified: bool) -> str:
    """Say how the page's entry contradicts the library's, or nothing."""
    logs = entry.get("logLower") is not None and theirs.log_lower is not None
    names = ("logLower", "logUpper") if logs else ("lower", "upper")
    low, high = (entry[name] for name in names)
    least = theirs.log_lower if logs else theirs.lower
    most = theirs.log_upper if logs else theirs.upper
    if most is None or high is None:
        fits = most is None and high is None and _close(low, least)
    elif certified or most - least > 1e-10 * abs(most):
        # both enclose the truth, so that they overlap
        slack = CLOSE * max(abs(least), abs(most)) + 1e-14
        fits = low <= most + slack and high >= least - slack
    else:
        # a logarithm may be as wrong as the probability is, absolutely
        both = [_close(low, least), _close(high, most)]
        near = [abs(low - least), abs(high - most)]
        fits = all(both) or (logs and max(near) <= CLOSE)
    return "" if fits else f"[{low!r}, {high!r}] for [{least!r}, {most!r}]"


CERTIFIED = (
    "epsilon", "power", "membership_advantage", "rero", "rero_advantage", "sphere_success",
    "box_success", "pixel_success",
)  # fmt: skip


def _faults(library, settings: list[dict[str, float]], sampled: bool) -> tuple[list[str], set[str]]:
    answers = library.evaluate("all => all.map(s => reconriskExplorer.evaluate(s))", settings)
    faults, seen = [], set()
    for setting, answer in zip(settings, answers, strict=True):
        theirs = {e.kind: e for e in _report(setting, sampled).entries}
        for key, entry in answer.items():
            kind = key.partition("[")[0]
            known = theirs.get(kind)
            if known is None or known.status != "ok" or "reason" in entry:
                continue
            if sampled and kind == "mse_tail_shrunk":
                continue
            seen.add(kind)
            apart = _apart(entry, known, sampled and kind in CERTIFIED)
            if apart:
                faults.append(f"{key} at {setting}: {apart}")
    return faults, seen


def test_closed_forms_agree_on_random_settings(library) -> None:
    faults, seen = _faults(library, _settings(1, 60, False), False)
    assert not faults, "\n".join(faults)
    assert seen == set(SHOWN)


def test_sub_sampled_runs_are_enclosed(library) -> None:
    faults, seen = _faults(library, _settings(2, 12, True), True)
    assert not faults, "\n".join(faults)
    assert set(CERTIFIED) - {"rero_advantage"} <= seen


def test_entries_carry_the_keys_of_the_report(library) -> None:
    setting = {"sigma": 1.3, "q": 1, "steps": 3, "surprise": 2, "dimension": 50, "mse": 0.5,
               "fpr": 0.125, "psnr": 20.5, "ncc": 0.5, "pixels": 0.75, "norm": 2.0}  # fmt: skip
    keys = library.evaluate("s => Object.keys(reconriskExplorer.evaluate(s))", setting)
    report = _report(library.evaluate("s => reconriskExplorer.report.complete(s)", setting), False)
    assert set(keys) == {e.key for e in report.entries if e.kind in SHOWN}


@pytest.mark.parametrize("exponent", [1850, 5000, 200.5, 20])
def test_priors_far_below_the_floats(library, exponent) -> None:
    prior = -exponent * math.log(10)
    for shift, steps in ((0.5, 1), (90.0, 100)):
        sigma = math.sqrt(steps) / shift
        ours = library.evaluate(
            "a => reconriskExplorer.bounds.reroGaussian(...a)", [prior, sigma, steps]
        )
        theirs = bounds.rero_gaussian(sigma, log_prior_success=prior, steps=steps, log=True)
        assert ours == pytest.approx(float(theirs), rel=1e-11)


def test_enclosures_are_as_narrow_as_the_page_says(library) -> None:
    """Wide ones would pass every test of agreement."""
    runs = [(1.1, 0.01, 2000), (0.68, 0.02, 1000), (3.0, 0.2, 500), (0.66, 0.00213, 1407)]
    for sigma, q, steps in runs:
        entry = {"sigma": sigma, "q": q, "steps": steps, "surprise": 3}
        found = library.evaluate("s => reconriskExplorer.report.composed(s)", entry)
        for kind in ("epsilon", "membership_advantage", "rero[prior_size=1000]"):
            assert 0 <= found[kind]["upper"] - found[kind]["lower"] <= 1e-3 * found[kind]["upper"]
        run = DPSGD(sigma, q, steps)
        truth = privacy.delta(run, 0.0)
        assert found["membership_advantage"]["lower"] <= truth.upper
        assert found["membership_advantage"]["upper"] >= truth.lower


def test_wide_enclosures_are_admitted(library) -> None:
    """At small rates the page either agrees with the library or says that it does not know."""
    for sigma, q, steps in [(0.7, 1e-4, 10_000), (0.53, 2.9e-5, 87_000), (1.0, 1e-3, 1000)]:
        entry = {"sigma": sigma, "q": q, "steps": steps, "surprise": 3, "delta": 1e-6}
        found = library.evaluate("s => reconriskExplorer.report.composed(s)", entry)
        wide = library.evaluate("e => reconriskExplorer.report.tooWide(e)", found)
        truth, epsilon = privacy.epsilon(DPSGD(sigma, q, steps), 1e-6), found["epsilon"]
        assert epsilon["lower"] <= truth.upper and truth.lower <= epsilon["upper"]
        assert wide or epsilon["upper"] - epsilon["lower"] <= 0.05 * epsilon["upper"]


#: sigma, q, T at which few steps have a loss that matters
RARE = [
    (0.7, 1e-4, 10_000), (0.53, 2.9e-5, 87_000), (0.6, 1e-4, 30_000), (0.9, 1e-6, 100_000),
    (0.5, 1e-5, 100_000), (0.7, 1e-5, 100_000), (2.0, 1e-5, 100_000),
]  # fmt: skip


def test_success_and_advantage_are_narrow_at_small_rates(library) -> None:
    """Rare large losses are treated apart, as in the library."""
    priors = [1e-6, 1e-3, 0.1]
    for sigma, q, steps in RARE:
        mechanism, run = {"a": 1 / sigma, "q": q, "steps": steps}, DPSGD(sigma, q, steps)
        (lower, upper), distance = library.evaluate(
            "([m, k]) => [reconriskExplorer.accountant.successCurve(m, k, 1e-3),"
            " reconriskExplorer.accountant.distance(m, 1e-3)]",
            [mechanism, priors],
        )
        truths = [*(bounds.rero(run, k) for k in priors), privacy.delta(run, 0.0)]
        found = [*zip(lower, upper, strict=True), distance]
        for (low, high), truth in zip(found, truths, strict=True):
            assert low <= truth.upper * (1 + 1e-9) and truth.lower <= high * (1 + 1e-9)
            assert high - low <= 0.01 * high


def test_epsilon_is_narrow_at_small_rates(library) -> None:
    for sigma, q, steps in RARE:
        mechanism = {"a": 1 / sigma, "q": q, "steps": steps}
        low, high = library.evaluate(
            "m => reconriskExplorer.accountant.epsilon(m, 1e-6, 1e-3)", mechanism
        )
        truth = privacy.epsilon(DPSGD(sigma, q, steps), 1e-6)
        assert low <= truth.upper and truth.lower <= high
        assert high - low <= max(1e-3 * high, 2e-5)


def test_curves_pass_through_the_library(library) -> None:
    """Points of the curves, full batch and sub-sampled."""
    for q, steps in ((1.0, 100), (0.05, 200)):
        setting = {"sigma": 2.0, "q": q, "steps": steps, "surprise": 2, "dimension": 300}
        curves = library.evaluate("s => reconriskExplorer.report.composedCurves(s)", setting)
        run = DPSGD(2.0, q, steps)
        prior = curves["prior"]
        for i in range(0, len(prior["x"]), 8):
            found = bounds.rero(run, log_prior_success=prior["x"][i] * math.log(10), log=True)
            assert prior["lower"][i] * math.log(10) <= found.upper + 1e-9
            assert prior["upper"][i] * math.log(10) >= found.lower - 1e-9
        profile = curves["profile"]
        for i in range(0, len(profile["x"]), 3):
            found = privacy.epsilon(run, 10 ** profile["x"][i])
            assert profile["lower"][i] <= found.upper * (1 + 1e-9)
            assert profile["upper"][i] >= found.lower * (1 - 1e-9)
        closed = library.evaluate("s => reconriskExplorer.report.closedCurves(s)", setting)
        assert closed["prior"]["x"] == prior["x"]
        assert closed["noise"]["x"] == curves["noise"]["x"]


# The page ----------------------------------------------------------------------------------------


@pytest.fixture()
def page(browser, address) -> Iterator[object]:
    """The page in a window of its own; what it says or asks for elsewhere is a fault."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.faults = []
    _watch(page, address)
    yield page
    faults = page.faults
    context.close()
    assert not faults, "\n".join(faults)


def _watch(page, address: str) -> None:
    def requested(sent) -> None:
        target = urlsplit(sent.url)
        local = target.scheme in ("data", "blob", "file") or sent.url.startswith(address)
        if not local:
            page.faults.append(f"asks for {sent.url}")

    def said(message) -> None:
        if message.type in ("error", "warning"):
            page.faults.append(message.text)

    page.on("request", requested)
    page.on("console", said)
    page.on("pageerror", lambda error: page.faults.append(str(error)))


def _settled(page) -> None:
    page.wait_for_function(
        "() => document.getElementById('explorer-results').getAttribute('aria-busy') === 'false'",
        timeout=60_000,
    )


def _open(page, where: str) -> None:
    page.goto(where)
    page.wait_for_function(READY, timeout=60_000)
    _settled(page)


def test_every_row_and_chart_is_filled(page, address) -> None:
    _open(page, f"{address}/{PAGE}")
    values = page.locator("[data-value]").all_inner_texts()
    assert len(values) == len(SHOWN)
    assert "…" not in values
    charts = page.locator(".explorer-chart")
    assert charts.count() == 9
    for i in range(9):
        chart = charts.nth(i)
        assert chart.locator("path.explorer-line[d^='M']").count() >= 2
        named = chart.locator("> svg").get_attribute("aria-labelledby").split()
        assert all(page.locator(f"#{name}").inner_text().strip() for name in named)
        assert chart.locator("tbody tr").count() > 5
    unnamed = page.evaluate(
        "() => [...document.querySelectorAll('#explorer-app :is(input, select, button)')]"
        ".filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label')"
        " && !e.textContent.trim()).length"
    )
    assert unnamed == 0
    page.wait_for_function("() => document.getElementById('explorer-summary').textContent")
    assert page.locator("#explorer-summary").get_attribute("role") == "status"


def test_a_setting_survives_its_address(page, address) -> None:
    setting = "#sigma=1.75&q=1&T=40&k=1850&N=3072&X=25&R=255&C=2&delta=1e-7&mse=3&p=1000"
    _open(page, f"{address}/{PAGE}{setting}")
    taken = page.evaluate("() => reconriskExplorer.setting()")
    assert (taken["sigma"], taken["steps"], taken["surprise"]) == (1.75, 40, 1850)
    assert page.input_value("#explorer-surprise-number") == "1e-1850"
    page.click("#explorer-copy")
    cited = page.input_value("#explorer-link")
    page.goto("about:blank")
    _open(page, cited)
    assert page.evaluate("() => reconriskExplorer.setting()") == taken
    shown = page.locator("[data-value='rero']")
    prior = -1850 * math.log(10)
    report = bounds.rero_gaussian(1.75, log_prior_success=prior, steps=40, log=True)
    exponent = math.floor(float(report) / math.log(10))
    assert str(abs(exponent)) in shown.inner_text().translate(
        str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
    )


def test_keyboard_moves_sliders_and_crosshair(page, address) -> None:
    _open(page, f"{address}/{PAGE}")
    before = page.evaluate("() => reconriskExplorer.setting().sigma")
    epsilon = page.locator("[data-value='epsilon']").inner_text()
    page.focus("#explorer-sigma")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    _settled(page)
    sigma = page.evaluate("() => reconriskExplorer.setting().sigma")
    assert sigma > before
    assert page.get_attribute("#explorer-sigma", "aria-valuetext") == f"{sigma:g}"
    assert page.locator("[data-value='epsilon']").inner_text() != epsilon
    page.wait_for_function(f"() => location.hash.includes('sigma={sigma:g}&')")
    chart = page.locator(".explorer-chart").first
    chart.locator("> svg").focus()
    page.keyboard.press("ArrowRight")
    first = chart.locator(".explorer-readout").inner_text()
    page.keyboard.press("ArrowRight")
    assert "any attack" in first
    assert chart.locator(".explorer-readout").inner_text() != first


def test_bad_input_is_named_and_changes_nothing(page, address) -> None:
    _open(page, f"{address}/{PAGE}")
    before = page.evaluate("() => reconriskExplorer.setting()")
    for wrong in ("-1", "none", "1e9", "nan", ""):
        page.fill("#explorer-sigma-number", wrong)
        page.press("#explorer-sigma-number", "Enter")
        assert page.get_attribute("#explorer-sigma-number", "aria-invalid") == "true"
        assert "from 0.01 to 10000" in page.inner_text("#explorer-sigma-problem")
        assert page.evaluate("() => reconriskExplorer.setting()") == before
    for name, wrong, right in (
        ("q", "1.5", "A number from 10⁻⁷ to 1, please."),
        ("steps", "2.5", "A whole number from 1 to"),
        ("steps", "", "A whole number from 1 to"),
    ):
        page.fill(f"#explorer-{name}-number", wrong)
        page.press(f"#explorer-{name}-number", "Enter")
        assert right in page.inner_text(f"#explorer-{name}-problem")
        assert page.evaluate("() => reconriskExplorer.setting()") == before
    page.fill("#explorer-surprise-number", "1/500")
    page.press("#explorer-surprise-number", "Enter")
    _settled(page)
    assert page.locator("[data-title='rero']").inner_text() == "Success with 500 candidates"


def test_what_is_out_of_date_is_pale(page, address) -> None:
    _open(page, f"{address}/{PAGE}#sigma=1.1&q=0.01&T=2000")
    assert page.locator(".explorer-stale").count() == 0
    pale = page.evaluate(
        "() => { const slider = document.getElementById('explorer-sigma'); slider.value = '600';"
        " slider.dispatchEvent(new Event('input'));"
        " return document.querySelectorAll('[data-value].explorer-stale').length; }"
    )
    assert pale == len(SHOWN)
    _settled(page)
    assert page.locator(".explorer-stale").count() == 0


def test_an_address_that_no_run_has_is_admitted(page, address) -> None:
    _open(page, f"{address}/{PAGE}#sigma=-1&q=2&T=3")
    said = page.inner_text("#explorer-said")
    assert "sigma = -1, q = 2," in said
    assert "T =" not in said
    assert page.evaluate("() => reconriskExplorer.setting().q") == 1


def test_a_paper_s_setting_is_the_paper_s(page, address) -> None:
    _open(page, f"{address}/{PAGE}")
    page.select_option("#explorer-preset", "1")
    _settled(page)
    setting = page.evaluate("() => reconriskExplorer.setting()")
    run = DPSGD(setting["sigma"], setting["q"], setting["steps"])
    assert privacy.epsilon(run, 1e-5).upper == pytest.approx(10, rel=1e-3)
    cited = page.locator("article a[href^='?']")
    assert cited.count() == page.locator("#explorer-preset option").count() - 1
    cited.nth(1).click()
    page.wait_for_function(READY, timeout=60_000)
    assert page.evaluate("() => reconriskExplorer.setting()") == setting


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_and_works_from_a_file(browser, book, address, theme) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=theme)
    page = context.new_page()
    page.faults = []
    _watch(page, address)
    _open(page, f"{(book.folder / PAGE).as_uri()}#sigma=1.2&q=0.05&T=50&k=2")
    assert "to" in page.locator("[data-value='epsilon']").inner_text()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    context.close()
    assert not page.faults, "\n".join(page.faults)
