"""The code's order of imports, what the light rooms load, and the project's own files."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml

from companion.study import registry
from consistency import checks

ROOT = registry.project_root()
HEAVY = ("torch", "pandas", "matplotlib", "torchvision", "skimage", "sklearn")


def test_imports_run_one_way() -> None:
    assert checks.broken_contracts(ROOT) == []


def test_papers_use_no_private_names() -> None:
    assert checks.private_names(ROOT / "lib" / "companion" / "papers") == []


@pytest.mark.parametrize("room", ["bounds", "privacy", "special", "risk"])
def test_bounds_load_without_heavy_libraries(room: str) -> None:
    code = f"import sys, reconrisk.{room}; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_who_reaches_a_module_has_imported_it(tmp_path) -> None:
    """Notebooks' kernels are copies of a process that has imported more than a notebook."""
    files = [f for folder in ("lib", "notebooks") for f in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300 and checks.forgotten_imports(files) == []
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import concurrent as c, matplotlib\nmatplotlib.pyplot.show(c.futures.wait)\n")
    found = [said.split(":")[0] for said in checks.forgotten_imports([wrong])]
    assert found == ["concurrent.futures", "matplotlib.pyplot"]


def test_profiles_hold_values_of_their_own_kind() -> None:
    assert checks.parameters_out_of_kind() == []


def test_no_file_names_a_folder_of_one_machine() -> None:
    assert checks.machine_paths(ROOT) == []


def test_the_project_gives_one_address() -> None:
    assert len(checks.addresses_of_project(ROOT)) == 1


def test_environments_install_the_same() -> None:
    asked, python = {}, {}
    for name in ("environment.yml", "binder/environment.yml"):
        *plain, last = yaml.safe_load((ROOT / name).read_text())["dependencies"]
        asked[name], python[name] = last["pip"], plain[0]
    assert len(set(python.values())) == 1
    assert asked["environment.yml"] == ["-c constraints.txt", "-e .", "-e lib/companion[book,test]"]
    for path in (words.split()[1].partition("[")[0] for words in asked["binder/environment.yml"]):
        assert (ROOT / "binder" / path).exists(), path
    for name in ("Makefile", "README.md"):
        assert "-e . -e 'lib/companion[book,test]'" in (ROOT / name).read_text(), name


def test_constraints_pin_what_is_asked_for() -> None:
    """Every requirement has a pin that satisfies it; none is of one machine's builds."""
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pins[canonicalize_name(name)] = version
    assert not [v for v in pins.values() if "+" in v or "@" in v or not v]
    assert not [n for n in pins if n.startswith("nvidia")]
    for folder in (ROOT, ROOT / "lib" / "companion"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        asked = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
        for text in asked:
            wanted = Requirement(text)
            if wanted.name != "reconrisk":  # ours
                assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)]), text


WORKFLOWS = {
    "test.yml": {"push", "pull_request"},
    "book.yml": {"push"},
    "weekly.yml": {"schedule", "workflow_dispatch"},
    "release.yml": {"push"},
}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_are_well_formed(name: str) -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    triggers = workflow[True]  # YAML reads the key `on` as a truth value
    assert WORKFLOWS[name] <= set(triggers)
    assert workflow["permissions"]
    for job in workflow["jobs"].values():
        assert job["runs-on"] and job["timeout-minutes"] <= 120
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert "@" in step["uses"]


def test_workflows_run_the_projects_own_commands() -> None:
    texts = {p.name: p.read_text() for p in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert set(texts) == set(WORKFLOWS)
    assert {"make test", "make test-changed"} <= set(re.findall(r"make [a-z-]+", texts["test.yml"]))
    assert "make check" in texts["test.yml"]
    assert "make html" in texts["book.yml"] and "deploy-pages" in texts["book.yml"]
    assert "make book" in texts["weekly.yml"] and "make links" in texts["weekly.yml"]
    assert "sha256sum" in texts["release.yml"] and "gh release" in texts["release.yml"]
    assert yaml.safe_load(texts["release.yml"])[True]["push"]["tags"]
    assert yaml.safe_load(texts["weekly.yml"])[True]["schedule"][0]["cron"]


def test_the_readme_tells_no_lie() -> None:
    """Its Python runs, its make targets exist, its commands are known."""
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", readme, re.M)) <= targets
    from typer.main import get_command

    from companion.cli.app import app as companion
    from reconrisk.cli.app import app as library

    code = "\n".join(re.findall(r"```bash\n(.*?)```", readme, re.S))
    code += "\n".join(["", *re.findall(r"`((?:reconrisk|companion) [^`]+)`", readme)])
    for name, app in {"reconrisk": library, "companion": companion}.items():
        said = set(re.findall(rf"^{name} (\w+)", code, re.M))
        known = {n for n, c in get_command(app).commands.items() if not c.hidden}
        assert said and said <= known, said
    for folder in re.findall(r"^\| `([\w/]+)/", readme, re.M):
        assert (ROOT / folder).is_dir(), folder


def test_pages_spell_alike() -> None:
    """Half is 0.5, and the bound has a dash; figures and verdicts are spelled by ``typeset``."""
    texts = {
        f"{page.relative_to(ROOT)}": page.read_text(encoding="utf-8")
        for page in sorted((ROOT / "book").rglob("*.md"))
    }
    for path in sorted((ROOT / "notebooks").glob("*/*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        texts[f"{path.relative_to(ROOT)}"] = "\n".join(prose)
    unlike = re.compile(r"(?<![\w.\])}\\:])\.\d|Cram[eé]r-Rao")
    code = re.compile(r"^ *(`{3,})(?:[a-z].*)?\n.*?^ *\1$|`[^`\n]+`|^ *>>>.*$", re.M | re.S)
    found = {name: unlike.findall(code.sub("", text)) for name, text in texts.items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_every_finding_has_its_evidence_and_an_address() -> None:
    page = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    kinds, *findings = re.split(r"^- (?=\(found-)", page.split("What we found")[1], flags=re.M)
    known = set(re.findall(r"\[([^\]]+)\]\{\.evidence\}", kinds))
    assert len(known) == 4 and len(findings) >= 8
    for finding in findings:
        own = finding.split("\n- ")[0]
        (name,) = re.findall(r"\A\((found-\w+)\)=\n", own)
        assert own.count(f"(#{name})") == 1
        said = re.findall(r"\[([^\]]+)\]\{\.evidence\}", own)
        assert said and set(said) <= known, name
