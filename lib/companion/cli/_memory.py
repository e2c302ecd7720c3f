"""Whether a run fits into the memory that the machine has free."""

import contextlib
from pathlib import Path

__all__ = ["affordable_workers", "free_gigabytes", "start_of_peak"]

#: where Linux says what a container may use, and uses
_LIMITS = Path("/sys/fs/cgroup")


def free_gigabytes(limits: Path = _LIMITS) -> float:
    """Return the memory in GB that processes can still take: the machine's, or the container's."""
    import psutil

    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError, KeyError):  # no container, or one without a limit
        most = int((limits / "memory.max").read_text())
        used = int((limits / "memory.current").read_text())
        pages = dict(line.split() for line in (limits / "memory.stat").read_text().splitlines())
        free = min(free, most - used + int(pages["inactive_file"]))  # that cache gives way
    return max(free, 0) / 1e9


def affordable_workers(ceiling: float, workers: int, free: float) -> int:
    """Return how many of ``workers`` processes of at most ``ceiling`` GB fit into ``free`` GB."""
    return min(workers, int(free / ceiling)) if ceiling > 0 else workers


def start_of_peak() -> None:
    """Let the peak memory of this process count from here, where the system can do that."""
    with contextlib.suppress(OSError):  # Linux; elsewhere the peak is that of the whole process
        Path("/proc/self/clear_refs").write_text("5")
