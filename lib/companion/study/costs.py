"""What the paper profile costs: core-hours and GPU-hours, and times on many cores.

The figures of single exhibits are in ``data/companion/costs.csv``: measured, or scaled up from
smaller runs. A time on other machines follows from them by a simple model: an exhibit's work is its
seconds times the cores that it had, and it spreads over as many cores as its sweep has tasks, which
are taken to be equally long.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from companion.study import registry

__all__ = ["Price", "Total", "price_of", "prices", "total"]

MEASURED = "measured"


@dataclass(frozen=True)
class Price:
    """What one exhibit takes in the paper profile.

    Attributes
    ----------
    exhibit : str
        Its id.
    core_seconds, gpu_seconds : float
        Wall seconds times the cores or GPUs that the run had; one of the two is zero.
    tasks : int
        How many of its tasks can run at the same time; 1 where that was not counted.
    memory_gb : float
        Peak memory of one process.
    measured : bool
        Whether the whole run was measured; otherwise it was scaled up from smaller ones.
    basis : str
        From what.
    """

    exhibit: str
    core_seconds: float
    gpu_seconds: float
    tasks: int
    memory_gb: float
    measured: bool
    basis: str

    def seconds_on(self, units: int) -> float:
        """Return the wall seconds on so many cores, or GPUs if it needs one."""
        return (self.core_seconds + self.gpu_seconds) / max(1, min(units, self.tasks))


@dataclass(frozen=True)
class Total:
    """What several exhibits take together, each run on its own.

    Attributes
    ----------
    exhibits, measured : int
        How many there are, and how many of them were measured whole.
    core_seconds, measured_core_seconds, gpu_seconds : float
        Sums; the second is of those that were measured.
    longest_core_seconds : float
        Of the exhibit whose tasks are longest, one task.
    """

    exhibits: int
    measured: int
    core_seconds: float
    measured_core_seconds: float
    gpu_seconds: float
    longest_core_seconds: float

    def seconds_on(self, cores: int) -> float:
        """Return the least wall seconds on so many cores that are never idle, GPUs left out.

        All exhibits run at once, and nothing ends before the longest task does.
        """
        return max(self.core_seconds / cores, self.longest_core_seconds)


def price_of(cost: registry.Cost) -> Price:
    """Return a cost in numbers.

    Raises
    ------
    ValueError
        If its device is not so many CPU cores or GPUs.
    """
    number, _, kind = cost.device.partition(" ")
    if not number.isdigit() or kind not in ("CPU core", "CPU cores", "GPU", "GPUs"):
        raise ValueError(
            f"{cost.exhibit}: the device must be N CPU cores or N GPU; {cost.device!r}"
        )
    work = float(cost.seconds) * int(number)
    on_gpu = kind.startswith("GPU")
    return Price(
        exhibit=cost.exhibit,
        core_seconds=0.0 if on_gpu else work,
        gpu_seconds=work if on_gpu else 0.0,
        tasks=int(cost.tasks or 1),
        memory_gb=float(cost.memory_gb),
        measured=cost.basis == MEASURED,
        basis=cost.basis,
    )


def prices(papers: Iterable[str]) -> list[Price]:
    """Return what the exhibits of papers take, in registry order, if their cost is known."""
    wanted = set(papers)
    costs = registry.costs()
    return [
        price_of(costs[e.id])
        for e in registry.exhibits().values()
        if e.paper_key in wanted and e.id in costs
    ]


def total(priced: Iterable[Price]) -> Total:
    """Return what exhibits take together."""
    priced = list(priced)
    on_cores = [p for p in priced if not p.gpu_seconds]
    return Total(
        exhibits=len(priced),
        measured=sum(p.measured for p in priced),
        core_seconds=math.fsum(p.core_seconds for p in priced),
        measured_core_seconds=math.fsum(p.core_seconds for p in priced if p.measured),
        gpu_seconds=math.fsum(p.gpu_seconds for p in priced),
        longest_core_seconds=max((p.core_seconds / p.tasks for p in on_cores), default=0.0),
    )
