"""The book in a real browser, over a local web server, with nothing else reachable."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1400, "height": 900}
MATH = "book/papers/mean_to_extreme.html"
LEDGER = "book/generated/claims.html"


def _readable(book) -> list[str]:
    """Every page a reader can reach, less the redirects."""
    return [
        page
        for page, soup in book.pages.items()
        if soup.find("article") is not None and not page.startswith("_modules/")
    ]


@pytest.fixture(scope="module")
def phone(browser):
    context = browser.new_context(viewport=PHONE)
    yield context
    context.close()


@pytest.fixture(scope="module")
def desk(browser):
    context = browser.new_context(viewport=DESK)
    yield context
    context.close()


@pytest.fixture()
def page(desk):
    page = desk.new_page()
    yield page
    page.close()


def test_every_page_loads_quietly_and_fits(book, address, phone) -> None:
    """No request leaves the machine, none fails, the console is empty, nothing sticks out.

    Neither on a phone nor, the same page made wider, on a desk.
    """
    faults = []
    page = phone.new_page()
    here = {"name": ""}

    def fault(text: str) -> None:
        faults.append(f"{here['name']}: {text}")

    def requested(sent) -> None:
        target = urlsplit(sent.url)
        if target.scheme not in ("data", "blob") and f"http://{target.netloc}" != address:
            fault(f"asks for {sent.url}")

    def said(message) -> None:
        if message.type in ("error", "warning"):
            fault(f"console {message.type}: {message.text}")

    page.on("request", requested)
    page.on("console", said)
    page.on("pageerror", lambda error: fault(f"script error: {error}"))
    page.on("response", lambda r: fault(f"{r.status} {r.url}") if r.status >= 400 else None)
    pages = _readable(book)
    assert len(pages) > 20
    for name in pages:
        here["name"] = name
        page.set_viewport_size(PHONE)
        page.goto(f"{address}/{name}", wait_until="load")
        if page.locator(".math").count():
            # the first formula may stand in a part that is folded away
            page.wait_for_selector("mjx-container", state="attached", timeout=15_000)
            page.wait_for_function("() => window.MathJax.startup.promise.then(() => true)")
            left = page.locator("mjx-merror").count()
            if left:
                fault(f"{left} formulas MathJax cannot read")
        for window in (PHONE, DESK):
            page.set_viewport_size(window)
            excess = page.evaluate(STICKS_OUT)
            if excess:
                fault(f"wider than a window of {window['width']}: {excess}")
    page.close()
    assert not faults, "\n".join(faults)


#: one page of each kind
KINDS = (
    "book/index.html",
    "notebooks/biswas2024/02_capacity.html",
    "book/explorer.html",
    "book/papers/liu2024.html",
    "book/generated/errata.html",
    "book/api/training.html",
)


@pytest.mark.parametrize("scheme, pages", [("light", KINDS), ("dark", KINDS[:3])])
def test_pages_meet_the_rules_of_accessibility(browser, address, scheme, pages) -> None:
    """axe-core's rules, contrast among them; a picture without text beside grey on white fails."""
    page = browser.new_page(viewport=DESK, color_scheme=scheme)

    def broken_rules() -> list[str]:
        return [
            f"{page.url}: {rule['id']}: {node['html'][:200]}"
            for rule in Axe().run(page).response["violations"]
            for node in rule["nodes"]
        ]

    faults = []
    for name in pages:
        page.goto(f"{address}/{name}", wait_until="load")
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        faults += broken_rules()
    assert not faults, "\n".join(faults)
    wrong = '<img src="a.png"><p style="color: #999; background: #aaa">faint</p>'
    page.evaluate(f"document.querySelector('article').insertAdjacentHTML('beforeend', `{wrong}`)")
    assert {f.split(": ")[1] for f in broken_rules()} == {"image-alt", "color-contrast"}
    page.close()


def test_figures_keep_their_size_on_a_phone(address, phone) -> None:
    """Axes of a figure squeezed into 350 pixels cannot be read: it scrolls in its box instead."""
    page = phone.new_page()
    page.goto(f"{address}/notebooks/hayes2023/03_without_candidates.html", wait_until="load")
    for box in (".cell_output", ".recorded-run"):
        widths = page.eval_on_selector_all(f"{box} figure img", "all => all.map(i => i.width)")
        assert len(widths) > 3 and min(widths) >= 600, (box, widths)
    for name in ("book/index", "book/tour", "notebooks/beyond/00_fifteen_minutes"):
        page.goto(f"{address}/{name}.html", wait_until="load")
        shown = "article :is(figure, .cell_output) img"
        widths = page.eval_on_selector_all(shown, "all => all.map(i => i.width)")
        assert widths and min(widths) >= 600, (name, widths)
    page.close()


#: the page itself must not scroll sideways; nor may content be cut off where overflow is hidden
STICKS_OUT = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (e) => {
    for (let p = e; p && p !== document.body; p = p.parentElement) {
      const o = getComputedStyle(p).overflowX;
      if (o !== 'visible' && p.clientWidth <= width) return true;
    }
    return false;
  };
  const out = [];
  if (document.scrollingElement.scrollWidth > width + 1) out.push('the page');
  for (const e of document.querySelectorAll('article *')) {
    const box = e.getBoundingClientRect();
    if (box.width && box.right > width + 1 && !scrolls(e)) {
      out.push(e.tagName + '.' + e.className + ' ' + Math.round(box.right));
    }
  }
  return out.slice(0, 3).join('; ');
}"""


def test_formulas_are_typeset(address, page) -> None:
    page.goto(f"{address}/{MATH}")
    page.wait_for_selector("mjx-container", timeout=15_000)
    page.wait_for_function("() => window.MathJax.startup.promise.then(() => true)")
    assert page.locator("mjx-container").count() > 50
    assert page.locator("mjx-merror").count() == 0
    family = "() => [...document.fonts].filter(f => f.status === 'loaded').map(f => f.family)"
    assert any("MJX" in name for name in page.evaluate(family))


def test_search_finds(address, page) -> None:
    page.goto(f"{address}/search.html?q=reconstruction")
    page.wait_for_selector("#search-results li a", timeout=15_000)
    links = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
    assert len(links) > 5
    page.goto(links[0])
    assert page.locator("article h1").count() >= 1


def test_theme_toggles(address, page) -> None:
    page.goto(f"{address}/book/index.html")
    seen = set()
    colours = set()
    for _ in range(3):
        seen.add(page.evaluate("document.documentElement.dataset.theme"))
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.locator("button.theme-switch-button:visible").first.click()
    assert seen == {"light", "dark"}
    assert len(colours) == 2


def test_keyboard_reaches_the_contents(address, page) -> None:
    page.goto(f"{address}/book/index.html")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        place = "document.activeElement.closest('nav, #pst-primary-sidebar, .bd-sidebar-primary')"
        if page.evaluate(f"!!{place}"):
            reached.append(page.evaluate("document.activeElement.textContent.trim()"))
    assert any(re.search("How to read|read", text, re.I) for text in reached)


def test_ledger_filters(address, page) -> None:
    page.goto(f"{address}/{LEDGER}")
    rows = page.locator("table.ledger tbody tr")
    every = rows.count()
    assert every > 200
    page.fill("form.ledger-filter input", "capacity")
    by_word = page.locator("table.ledger tbody tr:visible").count()
    assert 0 < by_word < every
    assert page.locator("form.ledger-filter output").inner_text() == f"{by_word} of {every}"
    page.fill("form.ledger-filter input", "")
    page.select_option("form.ledger-filter select", "refuted")
    refuted = page.locator("table.ledger tbody tr:visible")
    assert 0 < refuted.count() < every
    counting = [row.locator(".verdict").first.inner_text() for row in refuted.all()]
    assert set(counting) == {"refuted"}
    page.select_option("form.ledger-filter select", "")
    page.fill("form.ledger-filter input", "a-")
    ids = page.locator("table.ledger").first.locator("tbody td:first-child")
    page.locator("table.ledger").first.locator("th button").first.click()
    page.locator("table.ledger").first.locator("th button").first.click()
    assert ids.all_inner_texts() == sorted(ids.all_inner_texts(), reverse=True)


def test_a_link_into_a_folded_ledger_opens_it(address, page) -> None:
    page.goto(f"{address}/{LEDGER}#claim-c-001")
    page.locator("#claim-c-001").wait_for(state="visible")


def test_ledger_is_whole_without_scripts(address, browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{LEDGER}")
    assert page.locator("table.ledger tbody tr").count() > 200
    page.locator("details:has(table.ledger) > summary").first.click()
    assert page.locator("table.ledger tbody tr:visible").count() > 10
    assert page.locator("form.ledger-filter:visible").count() == 0
    context.close()


@pytest.mark.parametrize(
    ("name", "link", "what"),
    [
        (MATH, "article a[href*='references.html#id']", ".citation"),
        (MATH, "article a[href*='#equation-eq-']:not(.headerlink)", "mjx-container"),
        (MATH, "article a[href*='glossary.html#term-']", "dd, p"),
        (MATH, "article a[href*='#prf-']:not(.headerlink)", ".admonition, .proof"),
        (MATH, "article a[href*='#exhibit-']", "img"),
        ("book/generated/errata.html", "article a[href*='#exhibit-']", "p"),
    ],
)
def test_links_show_what_they_lead_to(address, desk, name, link, what) -> None:
    """Nothing but this book is asked for it; Escape puts it away; it hides no second id."""
    page = desk.new_page()
    asked = []
    page.on("request", lambda sent: asked.append(sent.url))
    page.goto(f"{address}/{name}", wait_until="load")
    found = page.locator(link).first
    assert found.count() == 1, link
    found.evaluate("link => link.closest('details')?.setAttribute('open', '')")
    found.scroll_into_view_if_needed()
    found.hover()
    preview = page.locator(".popover.preview")
    preview.locator(what).first.wait_for(state="attached", timeout=15_000)
    preview.wait_for(state="visible")
    assert preview.count() == 1
    assert preview.inner_text().strip() or preview.locator("img, mjx-container").count()
    assert preview.locator("[id]").count() == preview.locator("mjx-container [id]").count()
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {
        urlsplit(address).netloc
    }
    page.keyboard.press("Escape")
    preview.wait_for(state="hidden")
    page.close()


def test_exhibit_details_open(address, page, book) -> None:
    name = next(n for n in book.pages if n.startswith("notebooks/"))
    page.goto(f"{address}/{name}")
    folded = page.locator("details.exhibit-details, .exhibit-details details")
    details = folded.filter(has_text="Rerun, cite").first
    details.locator("summary").first.click()
    for inside in ("To cite: ", "companion run "):
        details.get_by_text(re.compile(inside)).first.wait_for(state="visible")


def test_a_missing_browser_fails_the_build_machine_only(find_chromium, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception):
        find_chromium()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception):
        find_chromium()
