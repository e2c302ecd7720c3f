"""What a reader takes from an exhibit's page: figures as vectors, tables, a sentence to cite it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd

import reconrisk
from companion.book import downloads, figures, sources
from companion.book.figures import Wanted, draw_files, drawn_files
from companion.study import registry
from companion.study.exhibits import find_exhibit
from companion.study.records import (
    FOLDER,
    PICTURES,
    VARIABLE,
    keep_tables,
    read_tables,
    write_record,
)
from companion.study.tables import Tables

ROOT = registry.project_root()
CURVES, PHOTOGRAPHS, UNDRAWN = "hayes2023/fig5", "mean_to_extreme/fig1", "ziller2024/prop1"
SOURCE = downloads.Source(
    "The authors", "The book", "https://example.org", "0123456789abc", "2026-11-20"
)


def stored(exhibit: str) -> Wanted:
    return Wanted(exhibit, ROOT / FOLDER / exhibit)


def test_a_figure_is_the_same_file_whenever_it_is_drawn(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert draw_files(stored(CURVES), tmp_path / name)
    for ending in figures.FORMATS:
        first, second = ((tmp_path / n / f"figure.{ending}").read_bytes() for n in ("one", "two"))
        assert first == second, ending
    assert (tmp_path / "one" / "figure.pdf").read_bytes().startswith(b"%PDF-")


def test_vectors_are_as_large_as_the_notebooks_picture(tmp_path: Path) -> None:
    """110 pixels of a page to an inch; SVG counts 96, and Matplotlib writes points."""
    exhibit = find_exhibit(CURVES)
    inches = exhibit.draw(stored(CURVES).read()).get_size_inches()
    draw_files(stored(CURVES), tmp_path)
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    size = [float(root.get(name)) for name in ("width", "height")]
    # what is drawn, with a tenth of an inch round it
    assert np.allclose(size, 110 * inches, rtol=0.06)
    box = [float(number) for number in root.get("viewBox").split()]
    assert np.allclose(np.array(size) / box[2:], 110 / 72, rtol=1e-3)


def test_only_what_has_changed_is_drawn_again(tmp_path: Path) -> None:
    one = Wanted(CURVES, tmp_path / "tables")
    shutil.copytree(ROOT / FOLDER / CURVES, one.tables)
    files = drawn_files([one, stored(UNDRAWN)], tmp_path / "cache")
    assert list(files) == [CURVES] and set(files[CURVES]) == set(figures.FORMATS)
    old = 1.0
    os.utime(files[CURVES]["svg"], (old, old))
    drawn_files([one], tmp_path / "cache")
    assert files[CURVES]["svg"].stat().st_mtime == old
    tables = one.read()
    doubled = {n: t.map(lambda v: 2 * v if isinstance(v, float) else v) for n, t in tables.items()}
    write_record(replace(tables, frames=doubled), one.tables)
    drawn_files([one], tmp_path / "cache")
    assert files[CURVES]["svg"].stat().st_mtime > old


def test_no_grey_ramp_is_passed_off_as_a_picture(tmp_path: Path, monkeypatch) -> None:
    """Stored tables keep no pictures: the figure is drawn where the run has kept them, only."""
    assert not stored(PHOTOGRAPHS).can_be_drawn
    tables = stored(PHOTOGRAPHS).read()
    seen = {name: np.full_like(image, 0.25) for name, image in tables.images.items()}
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    keep_tables(replace(tables, images=seen))
    kept = Wanted(PHOTOGRAPHS, tmp_path / PHOTOGRAPHS)
    assert kept.can_be_drawn and (kept.tables / PICTURES).is_file()
    again = read_tables(kept.tables).images
    assert all(np.array_equal(again[name], image) for name, image in seen.items())
    assert draw_files(kept, tmp_path / "drawn")


def test_a_run_without_pictures_keeps_none(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    tables = Tables({"x": pd.DataFrame({"a": [1.0]})}, exhibit="a/b", profile="quick")
    keep_tables(tables)
    assert [path.name for path in (tmp_path / "a" / "b").glob("*")] != []
    assert not (tmp_path / "a" / "b" / PICTURES).exists()


def test_files_are_offered_under_names_that_say_whose_they_are(tmp_path: Path) -> None:
    draw_files(stored(CURVES), tmp_path / "drawn")
    figure = {ending: tmp_path / "drawn" / f"figure.{ending}" for ending in figures.FORMATS}
    links = downloads.offer(tmp_path, CURVES, figure, ROOT / FOLDER / CURVES)
    csv = sorted(path.name for path in (ROOT / FOLDER / CURVES).glob("*.csv"))
    staged = tmp_path / downloads.FOLDER / "hayes2023-fig5"
    assert {path.name for path in staged.iterdir()} == {
        *(f"hayes2023-fig5.{ending}" for ending in figures.FORMATS),
        *(f"hayes2023-fig5-{name}" for name in csv),
    }
    for name in csv:
        copy = (staged / f"hayes2023-fig5-{name}").read_bytes()
        assert copy == (ROOT / FOLDER / CURVES / name).read_bytes()
    assert links.count("{download}`") == len(figure) + len(csv)
    assert "{download}`SVG </book/generated/downloads/hayes2023-fig5/hayes2023-fig5.svg>`" in links


def test_where_nothing_can_be_drawn_the_notebooks_picture_is_offered(tmp_path: Path) -> None:
    links = downloads.offer(tmp_path, PHOTOGRAPHS, {}, tmp_path / "none", b"png")
    assert links.count("{download}`") == 1 and "`PNG <" in links
    assert downloads.offer(tmp_path, UNDRAWN, {}, tmp_path / "none") == ""


def test_a_citation_says_which_exhibit_of_which_version_after_which_figure() -> None:
    words = downloads.citation(CURVES, SOURCE)
    for part in ("Figure 5", f"`{CURVES}`", f"version {reconrisk.__version__}", "2026-11-20",
                 "`0123456789`", sources.address("hayes2023"), "Paper C"):  # fmt: skip
        assert part in words, part
    own = downloads.citation("beyond/priors", SOURCE)
    assert "After" not in own and "Priors" in own


def test_pages_show_vectors_unless_they_are_heavy(tmp_path: Path, monkeypatch) -> None:
    light = drawn_files([stored(CURVES)], tmp_path / "light")[CURVES]
    assert set(light) == set(figures.FORMATS) and light["svg"].stat().st_size < figures.LIGHT
    assert downloads.Files({CURVES: light}).shown(CURVES) == light["svg"]
    monkeypatch.setattr(figures, "LIGHT", 1000)
    heavy = drawn_files([stored(CURVES)], tmp_path / "heavy")[CURVES]
    assert downloads.Files({CURVES: heavy}).shown(CURVES) == heavy["png"]
    assert downloads.Files().shown(CURVES) is None and downloads.Files().staged(CURVES) == ""
