"""``companion data``: list, check and fetch the papers' data sets."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconrisk.cli.console import FAILED, fail, note, print_json, print_table, show, usage_errors

if TYPE_CHECKING:
    from companion.study.progress import Row
    from reconrisk.datasets import DataSet, KnownFile

app = typer.Typer(
    help="The papers' data sets: what they are, what is at hand, and fetching them.",
    no_args_is_help=True,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_sets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the data sets: what they hold, their terms, their files, who reads them.

    Example: `companion data list`
    """
    from reconrisk.datasets import DATA_SETS

    readers_of: dict[str, tuple[str, ...]] | None
    with usage_errors(context.obj):
        try:
            readers_of = list_readers()
        except ModuleNotFoundError:  # exhibits that train cannot be read
            readers_of = None
    if as_json:
        print_json(
            [
                {
                    "name": known.name,
                    "what": known.what,
                    "terms": known.terms,
                    "home": known.home,
                    "layout": known.layout,
                    "bytes": known.size,
                    "files": [
                        {"path": f.path, "bytes": f.size, "md5": f.md5} for f in known.packed
                    ],
                    "addresses": list(known.mirrors),
                    "exhibits": readers_of and list(readers_of[known.name]),
                }
                for known in DATA_SETS.values()
            ]
        )
        return
    print_table(
        ("name", "what", "packed", "read by"),
        [
            (
                known.name,
                known.what,
                _size(known.size) if known.size else "",
                f"{len(readers_of[known.name])} exhibits" if readers_of else "needs torch",
            )
            for known in DATA_SETS.values()
        ],
        flexible="what",
    )
    for known in DATA_SETS.values():
        show(f"\n{known.name}: {known.home}")
        show(f"  terms: {known.terms}")
        show(f"  below the data root: {known.layout}")
    show("\n--json names files and exhibits; `companion data check` looks at a folder.")


@app.command()
def check(
    context: typer.Context,
    data_root: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the data sets.")],
    as_json: AsJson = False,
) -> None:
    """Verify the files in a data folder against their checksums; nothing is changed.

    Exit status 1: a file is damaged. Missing files are no fault.

    Example: `companion data check --data-root path/to/data`
    """
    from reconrisk.datasets.files import check_folder

    with usage_errors(context.obj):
        findings = check_folder(data_root)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_table(
            ("data set", "file", "state", "detail"),
            [astuple(finding) for finding in findings],
            flexible="detail",
        )
    damaged = sum(f.state == "damaged" for f in findings)
    if damaged:
        raise fail(f"{damaged} of {len(findings)} files are damaged", FAILED)


@app.command()
def fetch(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="MNIST, FashionMNIST or CIFAR-10.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder of the data sets.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    mirror: Annotated[
        str,
        typer.Option(metavar="URL", help="Another address of the files; they are verified anyway."),
    ] = "",
) -> None:
    """Fetch a data set, after asking: whole and verified, or not at all.

    Files that are there already are verified and kept; a download that broke off is resumed. Exit
    status 1: not fetched; 2: a wrong argument.

    Example: `companion data fetch MNIST --to path/to/data`
    """
    from companion.study.downloads import find_missing
    from reconrisk.datasets import DATA_SETS

    with usage_errors(context.obj):
        data_set = _find_set(name, DATA_SETS)
        wanted = find_missing(data_set, to)
    if not wanted:
        show(f"{data_set.name} is in {to} already, as published")
        return
    mirrors = (mirror,) if mirror else data_set.mirrors
    size = _size(sum(file.size or 0 for file in wanted))
    note(f"{data_set.name}: {data_set.what}. Terms: {data_set.terms} ({data_set.home})")
    note(f"{len(wanted)} files, {size}, from {mirrors[0]} to {to}")
    if not yes and not _ask_agreement():
        raise fail("nothing was fetched", FAILED)
    _fetch_all(wanted, to, mirrors)
    show(f"{data_set.name} is in {to}: {', '.join(file.path for file in wanted)}")


def list_readers() -> dict[str, tuple[str, ...]]:
    """Return the exhibits whose paper profile reads each data set, by its name."""
    from companion.study import Study, all_exhibits
    from companion.study.inputs import data_sets
    from reconrisk.datasets import DATA_SETS

    study = Study(profile="paper")
    read = {e: data_sets(exhibit, study.context(e)) for e, exhibit in all_exhibits().items()}
    return {name: tuple(e for e in read if name in read[e]) for name in DATA_SETS}


def _find_set(name: str, data_sets: dict[str, DataSet]) -> DataSet:
    found = {key.lower(): value for key, value in data_sets.items()}.get(name.strip().lower())
    if found is None:
        raise ValueError(f"NAME must be one of {', '.join(data_sets)}; got {name!r}")
    return found


def _ask_agreement() -> bool:
    if not _on_terminal():
        raise fail("there is no terminal to ask on; --yes fetches without asking", FAILED)
    return typer.confirm("Fetch?", err=True)


def _on_terminal() -> bool:
    return sys.stdin.isatty()


def _fetch_all(wanted: list[KnownFile], to: Path, mirrors: tuple[str, ...]) -> None:
    from companion.study.downloads import fetch as fetch_file
    from companion.study.progress import show_rows

    received = dict.fromkeys([file.path for file in wanted], 0)

    def rows() -> Iterator[Row]:
        for file in wanted:
            done, size = received[file.path], file.size or 1
            yield Path(file.path).name, done / size, f"{_size(done)} of {_size(size)}"

    try:
        with show_rows(rows):
            for file in wanted:
                fetch_file(file, to, mirrors, functools.partial(received.__setitem__, file.path))
    except OSError as error:
        raise fail(f"{error}. The same command goes on from here", FAILED) from None
    except KeyboardInterrupt:
        raise fail("stopped; the same command goes on from here", 130) from None


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
