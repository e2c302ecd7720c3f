"""The book, compiled once from the stored outputs, and a browser that shows it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from rich.console import Console

from companion.book import printed
from companion.cli.book import compile_book
from companion.study import registry


@dataclass(frozen=True)
class Book:
    """A compiled book.

    Its pages' folder, what the build said, whether it found no fault, every page's parsed HTML.
    """

    folder: Path
    said: str
    faultless: bool
    pages: dict[str, BeautifulSoup]


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    root = registry.project_root()
    folder = tmp_path_factory.mktemp("book")
    said = StringIO()
    console = Console(file=said, width=200, markup=False)
    page = compile_book(root, root / "notebooks", console, folder)
    html = folder / "_build" / "html"
    if not html.is_dir():
        pytest.fail(f"the book does not compile:\n{said.getvalue()}")
    pages = {
        path.relative_to(html).as_posix(): BeautifulSoup(path.read_text(), "html.parser")
        for path in sorted(html.rglob("*.html"))
        if "_static" not in path.parts
    }
    return Book(html, said.getvalue(), page is not None, pages)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def address(book: Book) -> Iterator[str]:
    """The book on a local web server: search does not work from files."""
    handler = partial(_Quiet, directory=str(book.folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _find_chromium() -> str:
    """The browser's path; on the build machine its absence is a failure, elsewhere a skip."""
    try:
        return printed.find_chromium()
    except FileNotFoundError:
        absent = "no Chromium is installed, so nothing was tried in a browser"
        if os.environ.get("CI") == "true":
            pytest.fail(absent)
        pytest.skip(absent)


@pytest.fixture(scope="session")
def find_chromium() -> Callable[[], str]:
    return _find_chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    found = _find_chromium()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()
