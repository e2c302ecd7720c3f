"""A user's own images in the place of the data sets that an exhibit reads.

A data-driven exhibit names a labelled data set in a parameter. With a user's images that parameter
says instead how they are read (``datasets.OWN``): in grey where the paper has digits or garments,
smaller in the quick profile, in colour where it has CIFAR-10. An exhibit on two grey data sets gets
every other image of each class for the one and the rest for the other. Exhibits on photographs take
the images as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from companion.study.parameters import Parameter, Settings
from reconrisk import datasets

if TYPE_CHECKING:
    from companion.study.computations import Computation, Context

__all__ = ["check_enough", "data_parameters", "needed", "reads_data", "settings_with", "told"]

_GREY = ("MNIST", "FashionMNIST")


def settings_with(
    known: Computation, profile: str, settings: Settings, overrides: Mapping[str, Any]
) -> Settings:
    """Return the settings of a run on a user's images.

    Raises
    ------
    ValueError
        If the exhibit reads no data, or a data set is asked for by name besides.
    """
    named = data_parameters(known.parameters, profile)
    if not reads_data(known):
        raise ValueError(
            f"{known.exhibit} reads no data set and no photographs, so data has no place in it"
        )
    given = sorted(named.keys() & overrides.keys())
    if given:
        raise ValueError(f"{', '.join(given)} cannot be set: data takes the place of all data sets")
    return Settings({**settings, **named})


def reads_data(known: Computation) -> bool:
    """Say whether an exhibit reads a labelled data set or photographs, in either profile."""
    return known.photographs or bool(data_parameters(known.parameters))


def data_parameters(parameters: Mapping[str, Parameter], profile: str = "paper") -> dict[str, str]:
    """Return the parameters that name a data set, and how a user's images are read for each."""
    names = {n: p.paper for n, p in parameters.items() if p.paper in datasets.CLASSIFIED}
    grey = [name for name, paper in names.items() if paper in _GREY]
    read = dict.fromkeys(names, "own colour")
    if len(grey) == 1:
        return read | {grey[0]: "own grey" if profile == "paper" else datasets.SMALL}
    return read | dict(zip(grey, datasets.HALVES, strict=False))


def check_enough(known: Computation, settings: Mapping[str, Any], path: Path) -> None:
    """Refuse images that are too few for an exhibit, or of one class, before anything is computed.

    Raises
    ------
    ValueError
        Saying how many are needed, and which parameters decide it.
    OSError
        If the images cannot be listed.
    """
    named = data_parameters(known.parameters)
    labels, what = datasets.own_listing(path, "train" if named else "all")
    halves = 2 if set(named.values()) & set(datasets.HALVES) else 1
    count, why = needed(known, settings)
    part = " to train with" if named else ""
    if len(labels) // halves < count:
        raise ValueError(
            f"{known.exhibit} needs {halves * count:,} images{part} ({why}"
            + (", for each of two halves" if halves > 1 else "")
            + f"); {what} has {len(labels):,}. `companion parameters {known.exhibit}` shows what "
            "--set can lower"
        )
    if named and len(np.unique(labels % datasets.MOST_OUTPUTS)) < 2:
        raise ValueError(
            f"{known.exhibit} needs images of at least 2 classes, since it trains a classifier; "
            f"{what} has 1. Sort the images into a folder for each class"
        )


def needed(known: Computation, settings: Mapping[str, Any]) -> tuple[int, str]:
    """Return how many images a run needs (of the training part), and the parameters that say so."""
    every = _of_labelled(settings.get) if data_parameters(known.parameters) else ()
    photographs = _of_photographs(settings.get) if known.photographs else ()
    return max([*every, *photographs], default=(1, "one"))


def _of_photographs(value: Callable[[str], Any]) -> Iterator[tuple[int, str]]:
    if value("pictures") is not None:
        yield int(value("pictures")), f"pictures = {value('pictures'):,}"
    if value("picture") is not None:
        yield int(value("picture")) + 1, f"picture = {value('picture')}, counted from 0"


def _of_labelled(value: Callable[[str], Any]) -> Iterator[tuple[int, str]]:
    """What each group of parameters asks for; absent parameters ask for nothing."""
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


#: parameters that ask for so many images beside those that are known
_CANDIDATES = ("prior_size", "prior_sizes", "candidates", "largest_prior", "ranked", "test_models")
#: parameters that ask for so many images by themselves
_ALONE = ("images", "batch_size", "batch_sizes", "sizes", "tried", "auxiliary", "records")


#: batches of Biswas et al. where no parameter says otherwise; the longest lists of Hayes et al.
_PAPERS_BATCH, _PAPERS_PRIOR = 128, 100


def _largest(value: Any) -> int:
    return int(max(value)) if isinstance(value, tuple | list) else int(value)


def told(context: Context) -> str:
    """Say on which images an exhibit ran, and how they were read."""
    assert context.data_root is not None
    _, what = datasets.own_listing(context.data_root)
    read = [v for v in context.settings.values() if v in datasets.OWN]
    how = {
        "own grey": "in grey at 28x28",
        datasets.SMALL: "in grey at 16x16",
        datasets.HALVES[0]: "in grey at 28x28, every other one in the place of each data set",
        "own colour": "in colour, cut square and scaled",
    }
    ways = [how[name] for name in dict.fromkeys(read) if name in how] or ["as photographs"]
    return f"On the images given, {what}, {' and '.join(ways)}, in place of the paper's."
