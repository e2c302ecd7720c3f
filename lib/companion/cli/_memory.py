"""How many processes of a run fit into the free memory."""

import contextlib
from pathlib import Path

#: where Linux gives the memory limit and use of a container
_LIMITS = Path("/sys/fs/cgroup")


def free_gigabytes(limits: Path = _LIMITS) -> float:
    """Return the free memory in GB of the machine, or of the container."""
    import psutil

    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError, KeyError):  # no container, or one without a limit
        most = int((limits / "memory.max").read_text())
        used = int((limits / "memory.current").read_text())
        pages = dict(line.split() for line in (limits / "memory.stat").read_text().splitlines())
        free = min(free, most - used + int(pages["inactive_file"]))  # this cache can be freed
    return max(free, 0) / 1e9


def affordable_workers(ceiling: float, workers: int, free: float) -> int:
    """Return how many of ``workers`` processes of at most ``ceiling`` GB fit into ``free`` GB."""
    return min(workers, int(free / ceiling)) if ceiling > 0 else workers


def start_of_peak() -> None:
    """Reset the peak memory of this process, where the system can do that."""
    with contextlib.suppress(OSError):  # not on Linux: the peak is that since the process started
        Path("/proc/self/clear_refs").write_text("5")
