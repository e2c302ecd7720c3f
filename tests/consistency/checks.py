"""Checks that registry, notebooks and code speak of the same things.

Each returns a list of problems in words, empty when all is well, so that the tests can also break
something and see it reported.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pandas as pd

from companion.book import copied_kernels
from companion.study import registry, stored, verdicts
from companion.study.exhibits import all_exhibits
from companion.study.inputs import KNOWN_CHECKSUMS
from companion.study.recorded import read_recorded
from companion.study.results import RESULT_MIME

#: what is built in every exhibit and claim: the five papers and what the companion adds.
BUILT = tuple(registry.PAPERS)

PARAMETERS = {key: exhibit.parameters for key, exhibit in all_exhibits().items()}

Notebook = Mapping[str, Any]


def notebooks(root: Path) -> dict[str, Notebook]:
    """Every stored notebook by its path from the project's root."""
    return {
        path.relative_to(root).as_posix(): nbformat.read(path, as_version=4)
        for path in stored.notebooks(root)
    }


# --- notebooks against the registry -----------------------------------------------------------


def without_verdict(root: Path, papers: Sequence[str] = BUILT) -> list[str]:
    """What of the given papers no stored notebook judges: exhibits, claims, errata."""
    found = stored.read(root)
    judged = {v.target for result in found.results.values() for v in result.verdicts}
    owed = [t for t in stored.targets().values() if t.paper_key in papers]
    return list(found.problems) + [
        f"{target.id} ({target.kind}): no notebook reaches a verdict on it"
        for target in owed
        if target.id not in judged
    ]


def unknown_ids(root: Path) -> list[str]:
    """Exhibits shown, targets judged and errata pointing to what no CSV lists."""
    problems = []
    for name, notebook in notebooks(root).items():
        for exhibit_id in stored.exhibit_cells(notebook):
            if exhibit_id not in registry.exhibits():
                problems.append(f"{name}: shows {exhibit_id}, which no CSV lists")
    for erratum in registry.errata().values():
        if erratum.exhibit not in registry.exhibits():
            problems.append(f"{erratum.id}: points to {erratum.exhibit}, which no CSV lists")
    for exhibit_id in PARAMETERS:
        if exhibit_id not in registry.exhibits():
            problems.append(f"parameters of {exhibit_id}, which no CSV lists")
    return problems


def contradictions(root: Path) -> list[str]:
    """Stored results that contradict themselves or their provenance."""
    return list(stored.find_inconsistencies(stored.read(root).results))


def outdated_parameters(root: Path) -> list[str]:
    """Stored results that were not made with the quick profile as it is now."""
    problems = []
    for exhibit_id, result in stored.read(root).results.items():
        content = result.content
        if (content["profile"], content["seed"]) != ("quick", 0):
            problems.append(
                f"{exhibit_id}: stored for {content['profile']}, seed {content['seed']}"
            )
        known = PARAMETERS.get(exhibit_id, {})
        now = {name: _as_json(p.parse(name, p.quick)) for name, p in known.items()}
        if _as_json(content["settings"]) != now:
            problems.append(f"{exhibit_id}: stored with {content['settings']}, quick is {now}")
    return problems


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def parameters_out_of_kind() -> list[str]:
    """Values in the profiles that their own parameter would refuse from a reader."""
    problems = []
    for exhibit_id, parameters in PARAMETERS.items():
        for name, parameter in parameters.items():
            for profile in ("quick", "paper"):
                try:
                    parameter.parse(name, getattr(parameter, profile))
                except (TypeError, ValueError) as error:
                    problems.append(f"{exhibit_id}, {profile}: {error}")
            if not parameter.printed or not parameter.meaning:
                problems.append(f"{exhibit_id}: {name} lacks what is printed or what it means")
    return problems


# --- the papers' pages ------------------------------------------------------------------------


def unstated(root: Path) -> list[str]:
    """Statements, figures, tables and errata that their paper's page does not tell or link."""
    pages = {
        key: (root / "book" / "papers" / f"{key}.md").read_text(encoding="utf-8")
        for key in registry.PAPERS
        if key != "beyond"
    }
    problems = []
    for exhibit in registry.exhibits().values():
        if exhibit.paper_key not in pages or registry.parent_of(exhibit.id) != exhibit.id:
            continue
        if exhibit.kind in ("figure", "table"):
            mark, lacks = f"<{exhibit.anchor}>", "no link"
        else:
            mark = f":label: prf-{exhibit.id.replace('/', '-')}\n"
            lacks = "no labelled statement"
        if mark not in pages[exhibit.paper_key]:
            problems.append(f"{exhibit.id}: {lacks} on its paper's page")
    for erratum in registry.errata().values():
        if f"<erratum-{erratum.id.lower()}>" not in pages[erratum.paper_key]:
            problems.append(f"{erratum.id}: no link on its paper's page")
    return problems


# --- notebooks by themselves ------------------------------------------------------------------


def unpaired(root: Path) -> list[str]:
    """Notebooks and scripts without their pair, or whose cells differ from it."""
    problems = []
    folder = root / "notebooks"
    scripts = {p.with_suffix("") for p in folder.rglob("*.py")}
    books = {p.with_suffix("") for p in folder.rglob("*.ipynb")}
    problems += [f"{p.relative_to(root)}.ipynb is missing" for p in sorted(scripts - books)]
    problems += [f"{p.relative_to(root)}.py is missing" for p in sorted(books - scripts)]
    for path in sorted(scripts & books):
        script = jupytext.read(path.with_suffix(".py"), fmt="py:percent")
        book = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
        if [_input(c) for c in script.cells] != [_input(c) for c in book.cells]:
            problems.append(f"{path.relative_to(root)}: .py and .ipynb differ; `make refresh`")
    return problems


def _input(cell: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    return (cell["cell_type"], cell["source"], tuple(cell["metadata"].get("tags", ())))


def unexecuted(name: str, notebook: Notebook) -> list[str]:
    """What nbval would pass silently: cells not run, out of order, or compared to nothing.

    nbval runs a cell without an execution count and compares it with nothing.
    """
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    counts = [cell["execution_count"] for cell in code]
    problems = []
    if counts != list(range(1, len(code) + 1)):
        problems.append(f"{name}: execution counts are {counts}, not 1 to {len(code)}")
    if not any(_compared(output) for cell in code for output in cell["outputs"]):
        problems.append(f"{name}: no cell has an output that nbval compares")
    for exhibit_id, cell in stored.exhibit_cells(notebook).items():
        if not any(RESULT_MIME in output.get("data", {}) for output in cell["outputs"]):
            problems.append(f"{name}: the cell of {exhibit_id} stores no result")
    return problems


def _compared(output: Mapping[str, Any]) -> bool:
    data = set(output.get("data", {})) - {"image/png", "text/html"}
    return output["output_type"] == "stream" or bool(data)


def silenced(name: str, notebook: Notebook) -> list[str]:
    """Cells taken out of nbval's comparison without a reason beside the tag.

    The reason is the cell's ``reason`` metadata.
    """
    problems = []
    for number, cell in enumerate(notebook["cells"]):
        marks = [t for t in cell["metadata"].get("tags", ()) if t.startswith("nbval-")]
        marks += [t for t in cell["metadata"].get("tags", ()) if t == "raises-exception"]
        if cell["cell_type"] == "code":
            marks += re.findall(r"#\s*((?:NBVAL|PYTEST_VALIDATE)_\w+)", cell["source"])
        exhibits = [t for t in cell["metadata"].get("tags", ()) if t.startswith("exhibit:")]
        if marks and exhibits:
            problems.append(f"{name}: cell {number}, an exhibit, is not compared ({marks})")
        elif marks and not cell["metadata"].get("reason"):
            problems.append(f"{name}: cell {number} is not compared ({marks}), without a reason")
    return problems


_VOLATILE = {"papermill", "execution", "widgets", "ExecuteTime", "collapsed", "scrolled"}
#: roots of absolute paths, put together here so that this file does not contain them
MACHINE_PATHS = re.compile(
    "|".join(
        rf"(?<![\w.]){re.escape(root)}"
        for root in ("/ho" + "me/", "/ro" + "ot/", "/wo" + "rk/", "/Us" + "ers/", "C:" + "\\Users")
    )
)


def volatile(name: str, notebook: Notebook) -> list[str]:
    """Traces of one machine or one run: timings, kernel versions, absolute paths."""
    problems = []
    language = notebook["metadata"].get("language_info", {})
    if "version" in language:
        problems.append(f"{name}: its metadata name a Python version")
    blocks = [("the notebook", notebook["metadata"])]
    blocks += [(f"cell {i}", cell["metadata"]) for i, cell in enumerate(notebook["cells"])]
    for where, metadata in blocks:
        for key in sorted(_VOLATILE & metadata.keys()):
            problems.append(f"{name}: {where} has {key!r} in its metadata")
    found = MACHINE_PATHS.search(json.dumps(notebook))
    if found:
        problems.append(f"{name}: it names an absolute path, {found[0]}...")
    return problems


#: what every notebook with exhibits asks of its reader at its end, and how an answer is marked
ASKED = ("Compute", "Change", "Prove or Refute")
SOLUTION = "Solution"


def exercises(name: str, notebook: Notebook) -> list[str]:
    """What is wrong with the section ``Try it``: its place, its three kinds, their solutions.

    The first two are solved by a folded cell that prints, the third by a folded text.
    """
    cells = notebook["cells"]
    headings = [
        (number, heading)
        for number, cell in enumerate(cells)
        if cell["cell_type"] == "markdown"
        for heading in re.findall(r"^## (.+)$", cell["source"], re.M)
    ]
    if not headings or headings[-1][1] != "Try it":
        return [f"{name}: does not end with a section 'Try it'"]
    section = cells[headings[-1][0] :]
    marks = [re.search(r"^\*\*(\w+)\.\*\*", c["source"], re.M) for c in section]
    asked = [(m[1], section[i + 1 :][:1]) for i, m in enumerate(marks) if m]
    kinds = tuple(kind for kind, _ in asked)
    if len(kinds) != 3 or kinds[:2] != ASKED[:2] or kinds[2] not in ASKED[2].split(" or "):
        return [f"{name}: asks {kinds}, not {ASKED}"]
    solved = [_computed_solution(asked[0][1]), _computed_solution(asked[1][1])]
    solved.append(
        bool(asked[2][1]) and asked[2][1][0]["source"].startswith(f"```{{dropdown}} {SOLUTION}\n")
    )
    return [
        f"{name}: {kind} has no folded solution"
        for kind, done in zip(kinds, solved, strict=True)
        if not done
    ]


def _computed_solution(cells: Sequence[Mapping[str, Any]]) -> bool:
    if not cells or cells[0]["cell_type"] != "code":
        return False
    metadata = cells[0]["metadata"]
    shown = metadata.get("mystnb", {}).get("code_prompt_show")
    folded = "hide-cell" in metadata.get("tags", ()) and shown == SOLUTION
    return folded and "print(" in cells[0]["source"]


# --- tolerances -------------------------------------------------------------------------------

_PRINTED = re.compile(
    r"-?(?P<whole>\d*)(?:\.(?P<decimals>\d+))?\s*(?:\\?%)?"
    r"(?:\s*(?:(?:\\cdot|\\times|x)\s*10\^|e)\s*\{?(?P<exponent>-?\d+)\}?)?"
)


def half_unit_again(printed: str) -> float:
    """Half a unit of a printed number's last digit, derived anew (not by the library's reader)."""
    match = _PRINTED.fullmatch(printed.strip())
    if match is None:
        raise ValueError(printed)
    places = len(match["decimals"] or "") - int(match["exponent"] or 0)
    return float(f"5e{-places - 1}")


def printed_numbers(root: Path) -> list[tuple[str, str]]:
    """Every number the papers print, as printed, with where it is recorded."""
    numbers = []
    for path in sorted((root / "data" / "paper").glob("*/*.csv")):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        if "printed" not in table:
            continue
        for text in table["printed"]:
            if _PRINTED.fullmatch(text.strip()) and any(c.isdigit() for c in text):
                numbers.append((path.relative_to(root).as_posix(), text.strip()))
    return numbers


def loosened(root: Path) -> list[str]:
    """Printed numbers that the library would compare more or less strictly than printed."""
    problems = []
    for where, text in printed_numbers(root):
        allowed, exact = verdicts.half_unit(text), half_unit_again(text)
        if abs(allowed - exact) > 1e-9 * exact:
            problems.append(f"{where}: {text} is compared within {allowed:g}, not {exact:g}")
    return problems


def misjudged(texts: Iterable[str] = ("0.12", "38.9%", "7", "1.0e-8")) -> list[str]:
    """Comparisons that let pass what is more than half a unit off, or refuse what is less."""
    problems = []
    for text in texts:
        unit = 2 * half_unit_again(text)
        printed = 1000 * unit
        for share, fits in ((0.0, True), (0.49, True), (0.51, False), (-0.51, False), (2.0, False)):
            value = printed + share * unit
            verdict = verdicts.compare("A-001", "a number", [value], [printed], [text])
            held = verdict.status == "reproduced"
            if held is not fits:
                word = "accepted" if held else "refused"
                problems.append(f"{text}: {share:g} units off is {word}")
    return problems


#: what a comparison of printed numbers may store as its tolerance, and nothing looser.
TOLERANCE = re.compile(r"half a unit of the last printed digit( \+ 4 standard errors)?")


def edited_tolerances(root: Path) -> list[str]:
    """Stored verdicts on printed numbers whose tolerance is not the one that is allowed."""
    problems = []
    if verdicts.STANDARD_ERRORS != 4:
        problems.append(f"comparisons allow {verdicts.STANDARD_ERRORS} standard errors, not 4")
    for exhibit_id, result in stored.read(root).results.items():
        for verdict in result.verdicts:
            of_numbers = verdict.paper.endswith("printed numbers")
            if of_numbers and not TOLERANCE.fullmatch(verdict.tolerance):
                problems.append(f"{exhibit_id}: {verdict.target} within {verdict.tolerance!r}")
    return problems


# --- code -------------------------------------------------------------------------------------


def broken_contracts(root: Path) -> list[str]:
    """The import contracts of ``.importlinter`` that a checkout breaks, by their names."""
    ran = subprocess.run(
        [sys.executable, "-c", _LINT_IMPORTS, str(root / ".importlinter")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "lib")},
        capture_output=True,
        text=True,
        check=False,
    )
    broken = re.findall(r"^(.+) BROKEN$", ran.stdout, re.M)
    if "Contracts: " not in ran.stdout or bool(ran.returncode) != bool(broken):
        raise RuntimeError(ran.stdout + ran.stderr)
    return broken


_LINT_IMPORTS = (
    "import sys; from importlinter.cli import lint_imports; "
    "sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True))"
)


def private_names(papers: Path) -> list[str]:
    """Private names of the library, or of another module, that papers import or reach."""
    problems = []
    for path in sorted(papers.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                ours = name.startswith(("reconrisk.", "companion."))
                if ours and any(re.match(r"_[a-z]", part) for part in name.split(".")):
                    problems.append(f"{path.relative_to(papers)}:{node.lineno}: imports {name}")
    return problems


#: whose modules a copied kernel may have without a notebook's asking
COPIED_PACKAGES = {
    *(name.partition(".")[0] for name in copied_kernels.IMPORTED),
    "numpy",
    *(name for name in sys.stdlib_module_names if not name.startswith("_")),
} - {"antigravity", "this", "ipykernel"}


def forgotten_imports(files: Iterable[Path]) -> list[str]:
    """Modules that code reaches through their package although only others import them.

    ``matplotlib.pyplot`` after ``import matplotlib``, which does not bring it along. Asked of what
    the copied process of kernels has imported, of each package in a process of its own.
    """
    used: dict[str, dict[str, set[str]]] = {package: {} for package in sorted(COPIED_PACKAGES)}
    for path in files:
        for name in _reached(ast.parse(path.read_text(encoding="utf-8"))):
            if (package := name.partition(".")[0]) in used:
                used[package].setdefault(name, set()).add(path.name)
    told = json.dumps({package: sorted(names, key=len) for package, names in used.items() if names})
    code = [sys.executable, "-c", _TRY_NAMES, told]
    ran = subprocess.run(code, capture_output=True, text=True, check=True)
    who = {name: ", ".join(sorted(by)) for names in used.values() for name, by in names.items()}
    return [f"{name}: reached but not imported by {who[name]}" for name in ran.stdout.split()]


_TRY_NAMES = """
import contextlib, functools, importlib, importlib.util, json, os, sys
for package, names in json.loads(sys.argv[1]).items():
    if os.fork():
        assert os.wait()[1] == 0, package
        continue
    root = importlib.import_module(package)
    for name in names:
        try:
            functools.reduce(getattr, name.split(".")[1:], root)
        except AttributeError:
            with contextlib.suppress(ModuleNotFoundError):
                if importlib.util.find_spec(name):
                    print(name)
    break
"""


def _reached(code: ast.Module) -> set[str]:
    """Dotted names that code reaches through packages, and does not import by name."""
    packages, imported = {}, set()
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imported |= {alias.name.rsplit(".", n)[0] for n in range(alias.name.count(".") + 1)}
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                packages[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            packages |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    reached = set()
    for node in ast.walk(code):
        parts: list[str] = []
        inner: ast.expr | ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in packages:
            reached.add(".".join([packages[inner.id], *parts]))
    return reached - imported


def tracked(root: Path) -> list[Path]:
    """The project's own files: those git knows or would take, without git all but what is built."""
    listed = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    if listed.returncode == 0:
        return [
            root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()
        ]
    built = {".git", ".venv", "_build", "__pycache__", ".hypothesis", ".pytest_cache"}
    return [p for p in root.rglob("*") if p.is_file() and not built & set(p.parts)]


def machine_paths(root: Path) -> list[str]:
    """Files of the project that name a folder of one machine."""
    problems = []
    for path in tracked(root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found = MACHINE_PATHS.search(text)
        if found:
            line = text[: found.start()].count("\n") + 1
            problems.append(f"{path.relative_to(root)}:{line}: names {found[0]}...")
    return problems


def addresses_of_project(root: Path) -> set[str]:
    """Every address that the project gives for its own repository."""
    cited = re.search(r"^repository-code: (\S+)", (root / "CITATION.cff").read_text(), re.M)
    configured = re.search(r"^  url: (\S+)", (root / "_config.yml").read_text(), re.M)
    return {m[1] for m in (cited, configured) if m}


# --- recorded runs ----------------------------------------------------------------------------


def unsound_records(root: Path) -> list[str]:
    """Records that are damaged, contradict themselves, failed, or cannot be asked for any more."""
    return list(read_recorded(root).problems)


def unknown_data(root: Path) -> list[str]:
    """Records of data whose checksums nobody knows, or that do not say what they read."""
    problems = []
    costs = registry.costs()
    for exhibit, record in read_recorded(root).records.items():
        inputs = record.provenance.inputs
        needs = costs[exhibit].needs_data if exhibit in costs else ""
        if needs and not inputs:
            problems.append(f"{exhibit}: it read {needs} and has no checksum of it")
        for name, found in inputs.items():
            if KNOWN_CHECKSUMS.get(name) != found:
                problems.append(f"{exhibit}: {name} with checksum {found[:12]} is not known")
    return problems


def unknown_code(root: Path) -> list[str]:
    """Records of code that no commit before this one holds as it ran."""
    problems = []
    for exhibit, record in read_recorded(root).records.items():
        commit = record.provenance.commit
        if record.provenance.dirty is not False:
            problems.append(f"{exhibit}: files differed from its commit, or it had none")
        if not re.fullmatch("[0-9a-f]{40}", commit):
            problems.append(f"{exhibit}: {commit!r} names no commit")
        elif _git(root, "merge-base", "--is-ancestor", commit, "HEAD").returncode:
            problems.append(f"{exhibit}: its commit {commit[:10]} is not among those before HEAD")
    return problems


def without_history(root: Path) -> str:
    """Why the commits before this one cannot be asked for; empty if they can."""
    inside = _git(root, "rev-parse", "--show-toplevel")
    if inside.returncode or Path(inside.stdout.strip()).resolve() != root.resolve():
        return "this tree is no git checkout"
    if _git(root, "rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        return "this checkout is shallow: it has no history"
    return ""


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git; where it is not installed it fails as it does outside a checkout."""
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", "git is not installed")
