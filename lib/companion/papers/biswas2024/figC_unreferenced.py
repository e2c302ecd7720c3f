"""The figure of Appendix C that no sentence mentions."""

from collections.abc import Iterator

from companion.exhibit import *


@measurement
def measure(study: Context) -> Tables:
    return Tables({})


def judge(tables: Tables) -> Iterator[Verdict]:
    yield not_run(
        "biswas2024/figC_unreferenced",
        "what the figure between Table IV and Section C-A shows",
        "the figure itself: the text at hand has an empty slot there, without a caption, "
        "and no sentence refers to it",
    )
