"""The costs of the paper profile: as text, and as a page of the book."""

from companion.book.markdown import escape, exhibit_link, list_table
from companion.study.costs import Price, Total, prices, total
from companion.study.registry import PAPERS, exhibit

__all__ = [
    "CORES",
    "costs_page",
    "hours",
    "span",
    "sums_text",
    "time_text",
    "times_text",
    "work_text",
]

#: cores for which the book gives times: of a laptop, a workstation, a node, a small cluster.
CORES = (2, 16, 128, 1024)
#: the number of costliest exhibits that the book names.
COSTLIEST = 6


# Text -------------------------------------------------------------------------------------------


def hours(seconds: float) -> str:
    """Return a time in hours to two digits: ``0.42``, ``12``, ``9,700``."""
    value = seconds / 3600
    if value < 0.005:
        return "<0.01" if value > 0 else "0"
    if value < 9.95:
        return f"{value:.2g}"
    return f"{float(f'{value:.2g}'):,.0f}"


def span(seconds: float) -> str:
    """Return a time to two digits in a suitable unit: ``12 s``, ``3 min``, ``2.5 h``."""
    for unit, size, most in (("s", 1, 99.5), ("min", 60, 99.5), ("h", 3600, 71.5)):
        if seconds / size < most:
            return f"{seconds / size:.2g} {unit}" if seconds >= 1 else "<1 s"
    days = seconds / 86400
    return f"{float(f'{days:.2g}'):,.0f} days" if days < 729 else f"{days / 365.25:.2g} years"


def work_text(price: Price) -> str:
    """Return the core-hours or GPU-hours of an exhibit."""
    return f"{hours(price.gpu_seconds)} GPU" if price.gpu_seconds else hours(price.core_seconds)


def time_text(price: Price, cores: int) -> str:
    """Return the time of an exhibit on ``cores`` cores, or on one GPU if it needs one."""
    if price.gpu_seconds:
        return f"{span(price.seconds_on(1))} (GPU)"
    return span(price.seconds_on(cores))


def sums_text(sum_: Total) -> tuple[str, str, str]:
    """Return core-hours, measured core-hours and GPU-hours (empty for none) of several exhibits."""
    return (
        hours(sum_.core_seconds),
        hours(sum_.measured_core_seconds),
        hours(sum_.gpu_seconds) if sum_.gpu_seconds else "",
    )


def times_text(sum_: Total, sizes: tuple[int, ...]) -> tuple[str, ...]:
    """Return the times of several exhibits on machines of ``sizes`` cores."""
    return tuple(span(sum_.seconds_on(size)) for size in sizes)


# The book ---------------------------------------------------------------------------------------


def costs_page() -> str:
    """Return the fragment that ``book/scale.md`` includes: totals, then all exhibits."""
    by_paper = {key: rows for key in PAPERS if (rows := prices([key]))}
    whole = total(p for rows in by_paper.values() for p in rows)
    if not whole.exhibits:
        return "Nothing has been measured yet.\n"
    heads = tuple(f"{size:,} cores" for size in CORES)
    sums = [(escape(PAPERS[key]), total(priced)) for key, priced in by_paper.items()]
    every = sorted((p for rows in by_paper.values() for p in rows), key=lambda p: -p.core_seconds)
    costliest, work = every[:COSTLIEST], whole.core_seconds or 1.0
    most = sum(p.core_seconds for p in costliest) / work
    slowest = max(every, key=lambda p: p.core_seconds / p.tasks).exhibit
    parts = [
        f"{whole.measured} of {whole.exhibits} exhibits were measured whole; they are cheap, "
        f"{_percent(whole.measured_core_seconds / work)} of the core-hours. The others are "
        f"extrapolated from smaller runs. {_percent(most)} of all core-hours are those of "
        + ", ".join(exhibit_link(p.exhibit, _place(p.exhibit)) for p in costliest)
        + f". The longest task of all is one of {exhibit_link(slowest, _place(slowest))}: "
        f"{span(whole.longest_core_seconds)}.",
        list_table(
            ("Paper", "Core-hours (measured)", "Exhibits (measured)", *heads, "GPU-hours"),
            [
                (
                    name,
                    f"{sums_text(t)[0]} ({escape(sums_text(t)[1])})",
                    f"{t.exhibits} ({t.measured})",
                    *map(escape, times_text(t, CORES)),
                    sums_text(t)[2],
                )
                for name, t in [*sums, ("**The whole book**", whole)]
            ],
            widths=(21, 15, 12, 11, 10, 11, 11, 9),
            classes="prices totals",
        ),
    ]
    for key, priced in by_paper.items():
        table = list_table(
            ("Exhibit", "Core-hours", "Tasks", *heads, "Memory", "Basis"),
            [
                (
                    exhibit_link(p.exhibit),
                    escape(work_text(p)),
                    str(p.tasks),
                    *(escape(time_text(p, size)) for size in CORES),
                    f"{p.memory_gb:g} GB",
                    escape(p.basis),
                )
                for p in sorted(priced, key=lambda p: -p.core_seconds - p.gpu_seconds)
            ],
            widths=(18, 9, 7, 10, 10, 10, 10, 8, 18),
            classes="prices",
        )
        title = f"{escape(PAPERS[key])}: {len(priced)} exhibits, the costliest first"
        parts.append(f"::::{{dropdown}} {title}\n{table}::::")
    return "\n\n".join(parts) + "\n"


def _place(exhibit_id: str) -> str:
    row = exhibit(exhibit_id)
    return f"{row.place} ({PAPERS[row.paper_key]})"


def _percent(share: float) -> str:
    if share < 0.001:
        return "less than 0.1%"
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
