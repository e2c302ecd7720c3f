"""Notebooks' kernels as copies of one process, which has imported what most notebooks import.

Until a kernel has PyTorch, SciPy and Matplotlib it takes three seconds of a core; a copy is there
at once, with the search path, environment, folder and process group of a kernel of its own. What
it cannot tell, whether a notebook or the code behind it uses a module that only the copied process
has imported, ``tests/consistency/test_project.py`` tells from the sources.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import multiprocessing.process
import os
import random
import runpy
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing import Pipe, reduction
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

from jupyter_client.manager import AsyncKernelManager, KernelManager

__all__ = ["IMPORTED", "can_watch", "copied_kernels", "serve"]

#: what most notebooks import; PyTorch's optimisers the last, when they are first used
IMPORTED = (
    "pandas",
    "ipykernel.kernelapp",
    "matplotlib.pyplot",
    "scipy.stats",
    "torch",
    "torch._dynamo",
)
#: with what Jupyter starts a kernel
_KERNEL = "ipykernel_launcher"


@contextlib.contextmanager
def copied_kernels(base: type[KernelManager] = AsyncKernelManager) -> Iterator[type[KernelManager]]:
    """Yield a class of managers whose kernels are copies, for as long as the block runs.

    It is derived from ``base``, one of Jupyter's classes. A kernel is started as usual where the
    system cannot watch another's child (others than Linux cannot), the notebook asks for another
    Python, or the copied process has ended.
    """
    if not can_watch():
        yield base
        return
    ours, theirs = Pipe()
    code = f"from {__name__} import serve; serve({theirs.fileno()})"
    server = subprocess.Popen(
        [sys.executable, "-c", code],
        pass_fds=[theirs.fileno()],
        env=dict(os.environ),  # without what libraries have set behind Python's back
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt of the terminal is for us to hand on
    )
    theirs.close()
    attributes = {"connection": ours, "lock": threading.Lock()}
    try:
        with contextlib.suppress(OSError, EOFError):
            # here and not in the threads that ask for kernels: an interrupt must reach us
            ours.recv()
        yield type("CopiedKernels", (_Manager, base), attributes)
        with contextlib.suppress(OSError):
            ours.send(None)
    except BaseException:
        server.kill()
        raise
    finally:
        ours.close()
        server.wait()


def can_watch() -> bool:
    """Return whether the system lets a process watch one that is not its child."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


class _Manager(KernelManager):
    """Starts kernels by asking the server, in place of starting Python."""

    connection: Connection
    lock: threading.Lock

    async def _async_launch_kernel(self, kernel_cmd: list[str], **kw: Any) -> None:
        if kernel_cmd[0] != sys.executable or _KERNEL not in kernel_cmd:
            return await super()._async_launch_kernel(kernel_cmd, **kw)
        arguments = kernel_cmd[kernel_cmd.index(_KERNEL) + 1 :]
        try:
            with self.lock:
                self.connection.send((arguments, dict(kw["env"]), kw["cwd"]))
                reduction.send_handle(self.connection, kw["stderr"].fileno(), 0)
                pid = self.connection.recv()
        except (OSError, EOFError):
            return await super()._async_launch_kernel(kernel_cmd, **kw)
        kernel: Any = self.provisioner
        kernel.process = _Copy(pid)
        kernel.pid = kernel.pgid = pid
        kernel.cwd = kw["cwd"]
        self._reconcile_connection_info(kernel.connection_info)


class _Copy:
    """What a manager asks of a kernel's process, which is another process's child."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor: int | None = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return None while it runs, then 0: its exit status is its parent's to know."""
        if self._descriptor is not None and select.select([self._descriptor], [], [], 0)[0]:
            os.close(self._descriptor)
            self._descriptor = None
        return None if self._descriptor is not None else 0

    def wait(self) -> int:
        """Wait for its end."""
        if self._descriptor is not None:
            select.select([self._descriptor], [], [])
        return self.poll() or 0

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self._descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


# In the server's process ------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Become a kernel as often as one is asked for over a connection; end when it is closed."""
    if sys.path[0] == "":  # as ipykernel_launcher does before it imports anything
        del sys.path[0]
    # what ipykernel and Matplotlib read when they are imported: whose end ends a kernel, and where
    # its figures go
    os.environ["JPY_PARENT_PID"] = str(os.getpid())
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    # pandas shows tables otherwise where it finds no kernel
    builtins.get_ipython = lambda: SimpleNamespace(kernel=None)  # type: ignore[attr-defined]
    importlib.import_module(IMPORTED[0])
    del builtins.get_ipython  # type: ignore[attr-defined]
    for name in IMPORTED[1:]:
        importlib.import_module(name)
    with Connection(descriptor) as connection:
        connection.send("ready")
        while True:
            try:
                request = connection.recv()
            except EOFError:  # whoever asked was killed
                return
            with contextlib.suppress(ChildProcessError):  # copies that have ended
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if request is None:
                return
            errors = reduction.recv_handle(connection)
            pid = os.fork()
            if pid == 0:
                break
            os.close(errors)
            connection.send(pid)
    arguments, environment, folder = request
    os.setsid()
    os.environ.update(environment)
    os.chdir(folder)
    # where worker processes look for modules
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
    os.dup2(errors, 2)
    os.close(errors)
    _draw_anew()
    sys.argv = [_KERNEL, *arguments]
    runpy.run_module(_KERNEL, run_name="__main__", alter_sys=True)


def _draw_anew() -> None:
    """Let unseeded generators of copies draw different numbers."""
    import numpy as np
    import torch

    random.seed()
    np.random.seed()  # noqa: NPY002
    torch.seed()
