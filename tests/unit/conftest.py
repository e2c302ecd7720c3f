"""A small project of its own for the tests of the study machinery and of the command line."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import companion.papers
from shapes import enforce  # noqa: F401  every unit test is a test of shapes too

EXHIBITS = """\
id,paper_key,kind,place,title
ziller2024/fig1,ziller2024,figure,Figure 1,Metrics [0; 1] over the noise
ziller2024/fig1_mse,ziller2024,figure,Figure 1 (MSE),The MSE over the noise
ziller2024/fig1_psnr,ziller2024,figure,Figure 1 (PSNR),The PSNR over the noise
ziller2024/table1,ziller2024,table,Table 1,Worst-case success
ziller2024/alg_linear,ziller2024,algorithm,Algorithm 1,The attack
ziller2024/def1,ziller2024,definition,Definition 1,The threat model
hayes2023/fig5,hayes2023,figure,Figure 5,Success over epsilon
hayes2023/fig5a,hayes2023,figure,Figure 5a,Success over epsilon on MNIST
"""
CLAIMS = """\
id,paper_key,place,claim,how_to_check,origin
B-001,ziller2024,Section 3,The MSE grows with the noise,compute it,stated in paper
B-002,ziller2024,Section 4,The success falls with the noise,compute it,stated in paper
C-001,hayes2023,Section 5,The bound is tight,compute it,stated in paper
"""
ERRATA = """\
id,paper_key,place,printed,corrected,exhibit
E-B-01,ziller2024,Section 3,The MSE is sigma,The MSE is sigma^2,ziller2024/fig1
"""
TABLE1 = """\
place,metric,value,printed
Table 1,success,38.9,38.9\\%
Table 1,mse,1.0,1.0
"""
FIG1_FILE = '''
"""Figure 1: quick, and known in advance."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from companion.study import Context, Parameter, Tables, check, measurement, refute
from companion.style import drawing, panels

PARAMETERS = {
    "samples": Parameter("int", 5, 1000, "1000", "draws", low=1),
    "scale": Parameter("float", 0.5, 0.5, "not printed", "standard deviation", low=-10),
    "norms": Parameter("floats", (1.0, 2.0), (1.0,), "1, 2", "clipping norms", low=0),
}
SETTLES = ("_mse", "_psnr", "B-001", "E-B-01")
PHOTOGRAPHS = True
CAPTION = "Draws."


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    if p.scale == 13:
        raise ValueError(f"scale must not be unlucky; got {p.scale}")
    draws = p.scale * study.rng("noise").standard_normal(p.samples)
    table = pd.DataFrame({"draw": range(p.samples), "value": draws})
    return Tables({"draws": table}, ran=f"{p.samples} draws.", stand_ins=("draws",))


def judge(tables):
    scale, figure = tables.parameters.scale, "ziller2024/fig1"
    yield check(figure, scale > 0, "the scale is positive", ours=f"{scale:g}")
    yield check(figure + "_mse", True, "the MSE is in [0, 1]", stand_in=tables.stand_in)
    yield check(figure + "_psnr", False, "the PSNR agrees", differs="other photographs")
    yield check("B-001", True, "it grows")
    yield refute("E-B-01", holds=False, corrected_holds=True)


def alt(tables):
    return f"{len(tables['draws'])} points."


@drawing
def draw(tables) -> Figure:
    figure, [[axis]] = panels(1, 1)
    axis.plot(tables["draws"]["draw"], tables["draws"]["value"])
    return figure
'''
TABLE1_FILE = '''
"""Table 1: known in advance."""

from __future__ import annotations

import pandas as pd

from companion.study import Context, Tables, check, compare, measurement, registry

SETTLES = ("B-002", "C-001")


@measurement
def measure(study: Context) -> Tables:
    printed = registry.printed("ziller2024/table1")
    table = pd.DataFrame({"metric": printed["metric"], "ours": [38.94, 1.0]})
    return Tables({"cells": table}, exact=("cells",))


def judge(tables):
    printed, ours = registry.printed("ziller2024/table1"), list(tables["cells"]["ours"])
    values = [float(v) for v in printed["value"]]
    yield compare("ziller2024/table1", "all cells", ours, values, list(printed["printed"]))
    yield check("B-002", ours[0] < 100, "it falls")
    yield check("C-001", True, "it is tight")
'''


@dataclass(frozen=True)
class Project:
    """A checkout with two exhibits of one paper and none of another's.

    Attributes
    ----------
    root : Path
        Holds ``data``.
    folder : Path
        The paper's folder of exhibits.
    """

    root: Path
    folder: Path

    @property
    def experiment(self) -> Path:
        """The file of Figure 1."""
        return self.folder / "fig1.py"

    def notebook(
        self, name: str, outputs: Mapping[str, Any], records: Mapping[str, str] | None = None
    ) -> Path:
        """Write an executed notebook with one cell per exhibit.

        ``outputs`` maps exhibit ids to what their cells store, None for a cell never executed.
        """
        from companion.study.results import RESULT_MIME

        cells: list[dict[str, Any]] = [
            {"cell_type": "markdown", "id": "top", "metadata": {}, "source": "# A notebook"},
        ]
        for number, (exhibit, content) in enumerate(outputs.items(), 1):
            shown = {
                "output_type": "display_data",
                "metadata": {},
                "data": {"text/plain": "", RESULT_MIME: content},
            }
            cells.append(
                {
                    "cell_type": "code",
                    "id": f"cell-{number}",
                    "metadata": {"tags": [f"exhibit:{exhibit}"]},
                    "execution_count": None if content is None else number,
                    "source": f'study.run("{exhibit}")',
                    "outputs": [] if content is None else [shown],
                }
            )
        metadata = {"reconrisk": {"records": dict(records or {})}}
        path = self.root / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})
        )
        return path

    def refreshed(self) -> Path:
        """Write the notebook of both exhibits as a refresh would."""
        from companion.study import Study
        from companion.study.provenance import describe_run
        from companion.study.records import FOLDER, attach_provenance, write_record

        session, outputs, records = Study(), {}, {}
        for exhibit in ("ziller2024/fig1", "ziller2024/table1"):
            result = session.run(exhibit)
            outputs[exhibit] = result.as_dict()
            folder = write_record(result.tables, self.root / FOLDER / exhibit).parent
            records[exhibit] = attach_provenance(folder, describe_run(session, exhibit, 0.4))
        return self.notebook("ziller2024/01_bounds", outputs, records)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A small project that is the registry's root while the test runs."""

    root = tmp_path / "project"
    for name, text in {
        "data/paper/exhibits.csv": EXHIBITS,
        "data/paper/claims.csv": CLAIMS,
        "data/paper/ziller2024/table1.csv": TABLE1,
        "data/companion/exhibits.csv": EXHIBITS.splitlines()[0] + "\n",
        "data/companion/claims.csv": CLAIMS.splitlines()[0] + "\n",
        "data/companion/errata.csv": ERRATA,
        "data/companion/defences.csv": "id,reading,defence,stands_because\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    papers = tmp_path / "papers"
    folder = papers / "ziller2024"
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", "fig1": FIG1_FILE, "table1": TABLE1_FILE}.items():
        (folder / f"{name}.py").write_text(text.lstrip())
    monkeypatch.setenv("RECONRISK_ROOT", str(root))
    monkeypatch.setenv("COMPANION_PAPERS", str(papers))
    monkeypatch.setattr(companion.papers, "__path__", [str(papers)])
    with fresh_papers(monkeypatch):
        yield Project(root, folder)


@contextlib.contextmanager
def fresh_papers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget which papers there are, before and after."""
    from companion.study import exhibits, registry

    cached = [exhibits.file_of, exhibits.find_file_exhibit]
    for name in [m for m in sys.modules if m.startswith("companion.papers.")]:
        monkeypatch.delitem(sys.modules, name)
    registry.forget()
    for function in cached:
        function.cache_clear()
    yield
    for name in [m for m in sys.modules if m.startswith("companion.papers.")]:
        del sys.modules[name]
    registry.forget()
    for function in cached:
        function.cache_clear()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let processes that are started here heed interrupts, whoever started the tests.

    A shell without job control has what it runs in the background ignore them, and everything that
    is started from there too.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def call_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Call the command line in an empty folder; returns its result, of the exit status ``code``."""
    from typer.testing import CliRunner

    from companion.cli.app import app

    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return call
