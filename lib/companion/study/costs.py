"""Costs of the paper profile: core-hours, GPU-hours, and times on many cores.

``data/companion/costs.csv`` holds those of single exhibits: measured, or extrapolated from smaller
runs. The model for other machines: an exhibit's work is its wall seconds times its cores, and
spreads over as many cores as its sweep has tasks, all of equal length.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from companion.study import registry

MEASURED = "measured"


@dataclass(frozen=True)
class Price:
    """The cost of one exhibit in the paper profile, in numbers.

    Attributes
    ----------
    exhibit : str
        Its id.
    core_seconds, gpu_seconds : float
        Wall seconds times the cores or GPUs that the run had; one of the two is zero.
    tasks : int
        How many of its tasks can run at the same time; 1 if not counted.
    memory_gb : float
        Peak memory of one process.
    measured : bool
        Whether the whole run was measured; otherwise its cost was extrapolated.
    basis : str
        From which smaller run.
    """

    exhibit: str
    core_seconds: float
    gpu_seconds: float
    tasks: int
    memory_gb: float
    measured: bool
    basis: str

    def seconds_on(self, units: int) -> float:
        """Return the wall seconds on ``units`` cores, or GPUs if it needs one."""
        return (self.core_seconds + self.gpu_seconds) / max(1, min(units, self.tasks))


@dataclass(frozen=True)
class Total:
    """The cost of several exhibits together, each run on its own.

    Attributes
    ----------
    exhibits, measured : int
        Their number, and the number of those that were measured.
    core_seconds, measured_core_seconds, gpu_seconds : float
        Sums; the second over the measured exhibits.
    longest_core_seconds : float
        Core seconds of the longest single task.
    """

    exhibits: int
    measured: int
    core_seconds: float
    measured_core_seconds: float
    gpu_seconds: float
    longest_core_seconds: float

    def seconds_on(self, cores: int) -> float:
        """Return the least wall seconds on ``cores`` cores that are never idle, without GPUs.

        All exhibits run at once; the longest task is a lower bound.
        """
        return max(self.core_seconds / cores, self.longest_core_seconds)


def price_of(cost: registry.Cost) -> Price:
    """Return a cost in numbers.

    Raises
    ------
    ValueError
        If its device is not a number of CPU cores or GPUs.
    """
    number, _, kind = cost.device.partition(" ")
    if not number.isdigit() or kind not in ("CPU core", "CPU cores", "GPU", "GPUs"):
        raise ValueError(
            f"{cost.exhibit}: the device must be N CPU cores or N GPU; got {cost.device!r}"
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
    """Return the known costs of the exhibits of papers, in registry order."""
    wanted = set(papers)
    costs = registry.costs()
    return [
        price_of(costs[e.id])
        for e in registry.exhibits().values()
        if e.paper_key in wanted and e.id in costs
    ]


def total(priced: Iterable[Price]) -> Total:
    """Return the cost of exhibits together."""
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
