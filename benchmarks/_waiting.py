"""A task that waits, in a module that workers can import."""

from __future__ import annotations

import time
from typing import Any


def wait(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """Wait as long as the task says."""
    time.sleep(task["seconds"])
    return {"n": task["n"], "seed": seed}
