"""A user's own images in place of the data sets that an exhibit reads.

A data-driven exhibit names a labelled data set in a parameter. With a user's images that parameter
names how to read them (``datasets.OWN``): in grey in place of MNIST and Fashion-MNIST, smaller in
the quick profile, in colour in place of CIFAR-10. An exhibit on two grey data sets gets every other
image of each class as the one and the rest as the other. Exhibits on photographs take the images as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from companion.study.parameters import Parameter, Settings
from reconrisk import datasets

if TYPE_CHECKING:
    from companion.study.exhibits import Exhibit
    from companion.study.session import Context

_GREY = ("MNIST", "FashionMNIST", "MNIST-5000", "FashionMNIST-20")


def name_own_images(
    exhibit: Exhibit, profile: str, settings: Settings, overrides: Mapping[str, Any]
) -> Settings:
    """Return the settings of a run on a user's images.

    Raises
    ------
    ValueError
        If the exhibit reads no data, or ``overrides`` name a data set.
    """
    named = data_parameters(exhibit.parameters, profile)
    if not reads_data(exhibit):
        raise ValueError(
            f"{exhibit.id} reads no data set and no photographs, so data has no place in it"
        )
    given = sorted(named.keys() & overrides.keys())
    if given:
        raise ValueError(f"{', '.join(given)} cannot be set: data takes the place of all data sets")
    return Settings({**settings, **named})


def reads_data(exhibit: Exhibit) -> bool:
    """Return whether an exhibit reads a labelled data set or photographs, in either profile."""
    return exhibit.photographs or bool(data_parameters(exhibit.parameters))


def data_parameters(parameters: Mapping[str, Parameter], profile: str = "paper") -> dict[str, str]:
    """Return how to read a user's images, by the parameters that name a data set."""
    names = {n: p.paper for n, p in parameters.items() if p.paper in datasets.CLASSIFIED}
    grey = [name for name, paper in names.items() if paper in _GREY]
    read = dict.fromkeys(names, "own colour")
    if len(grey) == 1:
        return read | {grey[0]: "own grey" if profile == "paper" else datasets.SMALL}
    return read | dict(zip(grey, datasets.HALVES, strict=False))


def check_enough(exhibit: Exhibit, settings: Mapping[str, Any], path: Path) -> None:
    """Raise if images are too few for an exhibit, or all of one class.

    Raises
    ------
    ValueError
        Naming how many it needs, and the parameters that decide it.
    OSError
        If the images cannot be listed.
    """
    named = data_parameters(exhibit.parameters)
    labels, what = datasets.own_listing(path, "train" if named else "all")
    halves = 2 if set(named.values()) & set(datasets.HALVES) else 1
    count, why = count_needed(exhibit, settings)
    part = " to train with" if named else ""
    if len(labels) // halves < count:
        raise ValueError(
            f"{exhibit.id} needs {halves * count:,} images{part} ({why}"
            + (", for each of two halves" if halves > 1 else "")
            + f"); {what} has {len(labels):,}. `companion parameters {exhibit.id}` shows what "
            "--set can lower"
        )
    if named and len(np.unique(labels % datasets.MOST_OUTPUTS)) < 2:
        raise ValueError(
            f"{exhibit.id} needs images of at least 2 classes, since it trains a classifier; "
            f"{what} has 1. Sort the images into a folder for each class"
        )


def count_needed(exhibit: Exhibit, settings: Mapping[str, Any]) -> tuple[int, str]:
    """Return how many (training) images a run needs, and the parameters that decide it."""
    every = _count_labelled(settings.get) if data_parameters(exhibit.parameters) else ()
    photographs = [count_photographs(settings)] if exhibit.photographs else []
    return max([*every, *photographs], default=(1, "one"))


def count_photographs(settings: Mapping[str, Any]) -> tuple[int, str]:
    """Return how many photographs a run reads, and the parameters that decide it."""
    if "picture" in settings:
        return int(settings["picture"]) + 1, f"picture = {settings['picture']}, counted from 0"
    counts = {name: int(settings[name]) for name in ("pictures", "others") if name in settings}
    if not counts and "records" in settings:
        counts["records"] = int(settings["records"])
    words = " and ".join(f"{name} = {count:,}" for name, count in counts.items())
    return sum(counts.values()) or 1, words or "one"


def _count_labelled(value: Callable[[str], Any]) -> Iterator[tuple[int, str]]:
    """Yield the number of images that each group of parameters needs, and the group in words."""
    for fixed in ("known", "grey_known", "colour_known", "training_size"):
        if value(fixed) is None:
            continue
        start = int(value(fixed)) - (fixed == "training_size")
        which = fixed.removesuffix("_known") if fixed != "known" else ""
        others = [*_CANDIDATES, f"{which}_targets" if which else "targets"]
        for name in others:
            if value(name) is not None:
                more = _largest(value(name))
                yield start + more, f"{fixed} = {start:,} and {name} = {more:,}"
    if value("records") is not None and value("groups") is not None:
        more = _largest(value("prior_sizes"))
        yield int(value("records")) - 1 + 10 * more, f"records and {more:,} candidates of one class"
    sizes = [name for name in _ALONE if value(name) is not None and value("known") is None]
    for name in sizes:
        more = _largest(value(name))
        yield more, f"{name} = {more:,}"
        if name == "auxiliary":
            yield (
                more + int(value("images")),
                f"{name} = {more:,} besides images = {value('images')}",
            )
    if value("digits") is not None and set(sizes) <= {"batch_sizes"}:
        more = int(value("prior_size") or 1) - 1
        beside = f" and {more} more candidates" if more else ""
        yield _PAPERS_BATCH + more, f"batches of {_PAPERS_BATCH}{beside}"
    lists = value("prior_size") or value("prior_sizes")
    if value("known") is not None and value("pool") is not None and lists is None:
        yield int(value("known")) + _PAPERS_PRIOR, f"known = {value('known'):,} and lists of 100"


#: parameters that need as many images besides the known ones
_CANDIDATES = ("prior_size", "prior_sizes", "candidates", "largest_prior", "ranked", "test_models")
#: parameters that need as many images by themselves
_ALONE = ("images", "batch_size", "batch_sizes", "sizes", "tried", "auxiliary", "records")
#: default batch size of Biswas et al.; the longest candidate lists of Hayes et al.
_PAPERS_BATCH, _PAPERS_PRIOR = 128, 100


def _largest(value: Any) -> int:
    return int(max(value)) if isinstance(value, tuple | list) else int(value)


def describe_source(context: Context) -> str:
    """Return a sentence: on which images an exhibit ran, and how it read them."""
    assert context.data_root is not None
    _, what = datasets.own_listing(context.data_root)
    read = [v for v in context.parameters.values() if v in datasets.OWN]
    how = {
        "own grey": "in grey at 28x28",
        datasets.SMALL: "in grey at 16x16",
        datasets.HALVES[0]: "in grey at 28x28, every other one in the place of each data set",
        "own colour": "in colour, cut square and scaled",
    }
    ways = [how[name] for name in dict.fromkeys(read) if name in how] or ["as photographs"]
    return f"On the images given, {what}, {' and '.join(ways)}, in place of the paper's."
