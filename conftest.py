"""What every test run shares: how notebooks are compared, and a count of what ran."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from companion.kernels import set_kernels
from reach import Reach, read_passed, write_passed

ROOT = Path(__file__).parent

#: the set of kernels that notebooks and tests run with
KERNELS = os.environ.get("RECONRISK_KERNELS", "fixed")
# before a folder's conftest.py imports NumPy
STAYING = set_kernels(KERNELS)

#: where notebooks' kernels keep the tables that they judge
_TABLES = tempfile.TemporaryDirectory(prefix="companion-tables-")
atexit.register(_TABLES.cleanup)

#: part of nbval's comparison that is left out. The HTML of a table is the same object as its plain
#: text and, for results, as the JSON beside it; both of those are compared, and HTML differs with
#: the version of pandas. Pictures nbval leaves out itself: their data are held by digests.
NOT_COMPARED = ("text/html",)

#: the fingerprint of each test file and notebook, and those that this run leaves out
NOW: pytest.StashKey[dict[str, str]] = pytest.StashKey()
LEFT_OUT: pytest.StashKey[set[str]] = pytest.StashKey()
#: the process whose copies notebooks' kernels are
COPIES: pytest.StashKey[contextlib.ExitStack] = pytest.StashKey()

#: looking for docstrings, pytest would import, and so run, the notebooks' sources
collect_ignore_glob = ["notebooks/*/*.py", "templates/*"]

GROUPS = (
    "unit",
    "property",
    "notebook cells",
    "consistency",
    "headlines",
    "recorded",
    "book",
    "docstrings",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole-suite",
        action="store_true",
        help="fail if any group of tests ran nothing",
    )
    parser.addoption(
        "--data-root",
        default=os.environ.get("RECONRISK_DATA_ROOT", ""),
        metavar="DIR",
        help="the papers' data sets, to compute points of recorded runs again "
        "(or RECONRISK_DATA_ROOT)",
    )
    parser.addoption(
        "--changed",
        action="store_true",
        help="leave out files and notebooks that passed here with all that they depend on",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Find, before anything runs, what each file depends on, and what has passed with just that."""
    if hasattr(config, "workerinput"):
        config.stash[LEFT_OUT] = set(config.workerinput["left_out"])
        return
    changed = config.getoption("--changed")
    config.stash[NOW], config.stash[LEFT_OUT] = {}, set()
    if changed or config.getoption("--whole-suite"):
        reach = Reach(ROOT, {"kernels": KERNELS, "data": config.getoption("--data-root")})
        config.stash[NOW] = {scope: reach.fingerprint(scope) for scope in reach.scopes()}
    if changed:
        kept = read_passed(ROOT).items()
        config.stash[LEFT_OUT] = {s for s, print_ in kept if config.stash[NOW].get(s) == print_}


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker what to leave out."""
    node.workerinput["left_out"] = sorted(node.config.stash[LEFT_OUT])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Let kernels of several notebooks be copies of a process: each saves the import of PyTorch."""
    notebooks = {item.path for item in session.items if hasattr(item, "compare_outputs")}
    if len(notebooks) > 1 and not session.config.option.collectonly:
        import nbval.kernel

        from companion.book.copied_kernels import copied_kernels

        copies = session.config.stash[COPIES] = contextlib.ExitStack()
        own = nbval.kernel.KernelManager
        nbval.kernel.KernelManager = copies.enter_context(copied_kernels(own))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not collection_path.is_file() or not collection_path.is_relative_to(ROOT):
        return None
    left_out = config.stash[LEFT_OUT]
    return scope_of(str(collection_path.relative_to(ROOT))) in left_out or None


@pytest.fixture(autouse=True)
def _generators() -> None:
    """Let what PyTorch draws without a generator, as first weights, not depend on other tests."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Take back what a test left in the environment, which notebooks' kernels would inherit."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def data_root(pytestconfig: pytest.Config) -> str:
    """The folder of the papers' data sets; empty if none was given."""
    return pytestconfig.getoption("--data-root")


def pytest_report_header() -> list[str]:
    stays = ", ".join(f"{name}={value}" for name, value in STAYING.items())
    return [f"kernels: {KERNELS}" + (f", but the environment has {stays}" if stays else "")]


def pytest_collectstart(collector: pytest.Collector) -> None:
    if getattr(collector, "path", ROOT).suffix == ".ipynb" and hasattr(collector, "skip_compare"):
        collector.skip_compare += NOT_COMPARED


def pytest_itemcollected(item: pytest.Item) -> None:
    if hasattr(item, "compare_outputs"):
        item.compare_outputs = functools.partial(_compare, item.compare_outputs)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let notebooks' kernels keep the tables that they judge, to be compared number by number."""
    if not hasattr(item, "compare_outputs"):
        return (yield)
    from companion.study.records import VARIABLE

    os.environ[VARIABLE] = _TABLES.name
    try:
        return (yield)
    finally:
        del os.environ[VARIABLE]


def _compare(compare: Callable[..., bool], test: Any, ref: Any, **options: Any) -> bool:
    """Compare outputs as nbval does, up to what other kernels do to what exhibits measure."""
    from companion.study.outputs import accept_other_kernels

    fresh, stored = (
        [o["data"] for o in outs if "text/plain" in o.get("data", {})] for outs in (test, ref)
    )
    faults = accept_other_kernels(fresh, stored, Path(_TABLES.name))
    if faults:  # nbval prints both sides where they differ
        fresh[-1]["text/plain"] += "\n" + "\n".join(faults)
    return compare(test, ref, **options)


def group_of(nodeid: str) -> str:
    """Return the group a test belongs to, by where it lives."""
    path = nodeid.partition("::")[0]
    if path.endswith(".ipynb"):
        return "notebook cells"
    if path.startswith("lib/"):
        return "docstrings"
    parts = path.split("/")
    return parts[1] if parts[0] == "tests" and len(parts) > 2 else "other"


def counts(reporter: pytest.TerminalReporter) -> dict[str, Counter[str]]:
    """Return how many tests of each group passed, failed or were skipped."""
    by_group: dict[str, Counter[str]] = {name: Counter() for name in GROUPS}
    for outcome in ("passed", "failed", "error", "skipped", "xfailed", "xpassed"):
        for report in reporter.stats.get(outcome, []):
            if outcome == "passed" and report.when != "call":
                continue
            by_group.setdefault(group_of(report.nodeid), Counter())[outcome] += 1
    return by_group


def seconds(reporter: pytest.TerminalReporter) -> Counter[str]:
    """Return how long the tests of each group took, on all workers together."""
    taken: Counter[str] = Counter()
    for report in (r for reports in reporter.stats.values() for r in reports):
        if isinstance(report, pytest.TestReport):
            taken[group_of(report.nodeid)] += report.duration
    return taken


def empty_groups(by_group: dict[str, Counter[str]]) -> list[str]:
    """Return the groups of which no test ran to an end."""
    return [name for name in GROUPS if not by_group[name]["passed"] + by_group[name]["failed"]]


def scope_of(nodeid: str) -> str:
    """Return what runs whole on one worker: a file or notebook, and all that needs the book."""
    path = nodeid.partition("::")[0]
    return "tests/book" if path.startswith("tests/book/") else path


def part_of(nodeid: str) -> str:
    """Return the file and the exhibit in brackets of a test, where it tests one after the other."""
    path, _, test = nodeid.partition("::")
    return f"{path}[{test.partition('[')[2]}"


#: processor seconds of what takes long and, unlike notebooks, stores no time; the book's tests
#: compile it
LONG = {"tests/book": 600.0}
#: of any other test
USUAL = 0.15


def cost_of(scope: str, tests: int, root: Path = ROOT) -> float:
    """Return about how many seconds a scope takes: as its notebook stores, or by its tests."""
    from companion.study.stored import read_provenances

    stored = 0.0
    if scope.endswith(".ipynb"):
        notebook = json.loads((root / scope).read_text(encoding="utf-8"))
        with contextlib.suppress(OSError, ValueError):  # the consistency tests say what is wrong
            runs = read_provenances(root, notebook)
            stored = sum(run.seconds or 0.0 for run in runs.values())
    return LONG.get(scope, 0.0) + stored + USUAL * tests


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out exhibits of which nothing changed; on a worker, put what takes longest first.

    The short ones then fill the workers' ends.
    """
    left_out = config.stash[LEFT_OUT]
    items[:] = [item for item in items if part_of(item.nodeid) not in left_out]
    if hasattr(config, "workerinput"):
        tests = Counter(scope_of(item.nodeid) for item in items)
        costs = {scope: cost_of(scope, number, config.rootpath) for scope, number in tests.items()}
        items.sort(key=lambda item: (-costs[scope_of(item.nodeid)], scope_of(item.nodeid)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal whole files to the workers of ``-n``: a notebook's cells share one kernel."""
    from xdist.scheduler import LoadScopeScheduling

    class FileScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    config.option.loadscopereorder = False  # the order is that of the workers' collection
    return FileScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if COPIES in session.config.stash:
        session.config.stash[COPIES].close()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    _keep_passed(session, reporter)
    if not session.config.getoption("--whole-suite"):
        return
    if exitstatus == pytest.ExitCode.OK and empty_groups(counts(reporter)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _keep_passed(session: pytest.Session, reporter: pytest.TerminalReporter) -> None:
    """Remember the files that passed, unless this run chose among their tests or was stopped."""
    option, stats, now = session.config.option, reporter.stats, session.config.stash[NOW]
    chosen = option.keyword or option.markexpr or option.maxfail or session.shouldstop
    if not now or chosen or any("::" in a for a in session.config.args):
        return

    def scopes(*kinds: str) -> set[str]:
        ran = [r.nodeid for kind in kinds for r in stats.get(kind, [])]
        return {*map(scope_of, ran), *map(part_of, ran)}

    failed = scopes("failed", "error")
    whole = scopes("passed", "skipped") - failed
    write_passed(ROOT, {scope: now[scope] for scope in whole if scope in now}, failed)


def _by_group(scopes: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    parts = Counter(file for scope in scopes if (file := scope.partition("[")[0]) != scope)
    files = {scope for scope in scopes if not scope.endswith("]")}
    for scope in sorted(files | set(parts)):
        name = Path(scope).stem if scope != "tests/book" else "all"
        if scope not in files:
            name += f" of {parts[scope]} exhibits"
        found.setdefault(group_of(f"{scope}/" if scope == "tests/book" else scope), []).append(name)
    return found


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("--changed"):
        terminalreporter.section("left out, as they passed here with all that they depend on")
        for name, scopes in _by_group(config.stash[LEFT_OUT]).items():
            terminalreporter.line(f"{name:<15} {len(scopes):>5}: {', '.join(scopes)}")
    by_group, taken = counts(terminalreporter), seconds(terminalreporter)
    terminalreporter.section("tests by group")
    for name, tally in by_group.items():
        if not tally and not config.getoption("--whole-suite"):
            continue
        told = ", ".join(f"{number} {outcome}" for outcome, number in tally.items()) or "none ran"
        ran = tally["passed"] + tally["failed"] + tally["xfailed"] + tally["xpassed"]
        terminalreporter.line(f"{name:<15} {ran:>5} ran in {taken[name]:>6.0f} s: {told}")
    empty = empty_groups(by_group)
    if config.getoption("--whole-suite") and empty:
        terminalreporter.line(f"FAILED: nothing ran of: {', '.join(empty)}", red=True)
