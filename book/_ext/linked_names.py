"""Sphinx extension: names in Python code link to their documentation.

On a notebook's page, each name that the code imports, and its attributes (``bounds.rero``), become
links: to the API page if there is one, else, for the companion's own modules, to the line of the
repository that defines them. Imports are read from the code, without running it.
"""

import ast
import functools
import importlib.util
import re
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator

LANGUAGES = ("python", "ipython", "ipython3")

_NAME = r'<span class="n[a-z]?">\w+</span>'
_POINT = '<span class="o">.</span>'
_DOT = re.escape(_POINT)
#: a dotted name as Pygments marks it up, which is neither an attribute nor a keyword argument
_DOTTED = re.compile(rf'(?<!{_DOT}){_NAME}(?:{_DOT}{_NAME})*(?!<span class="o">=</span>)')


def imports_of(code: str) -> dict[str, str]:
    """Return the full name of each name that Python code imports; empty if it is not Python."""
    try:
        tree = ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", code))
    except SyntaxError:
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def linked(html: str, addresses: dict[str, str]) -> str:
    """Return highlighted code with links on the longest dotted names that have an address."""

    def with_link(match: re.Match[str]) -> str:
        spans = re.findall(_NAME, match[0])
        names = [re.sub("<[^>]*>", "", span) for span in spans]
        for count in range(len(names), 0, -1):
            address = addresses.get(".".join(names[:count]))
            if address:
                text = _POINT.join(spans[:count])
                link = f'<a class="name" href="{escape(address)}">{text}</a>'
                return link + match[0][len(text) :]
        return match[0]

    return _DOTTED.sub(with_link, html)


def defined_in(qualified: str) -> tuple[str, int] | None:
    """Return the file in the repository and the line that define a name; None if not ours."""
    if not qualified.startswith("companion."):
        return None
    library = Path(importlib.util.find_spec("companion").origin).parents[1]
    file = library.joinpath(*qualified.split("."))
    module = file.parent.with_suffix(".py")
    for path, line in (
        (file / "__init__.py", 1),
        (file.with_suffix(".py"), 1),
        (module, _lines(module).get(file.name)),
    ):
        if line and path.is_file():
            return f"lib/{path.relative_to(library).as_posix()}", line
    return None


@functools.cache
def _lines(module: Path) -> dict[str, int]:
    """Return the first line that defines each name of a module; none if there is no such file."""
    lines: dict[str, int] = {}
    for node in ast.parse(module.read_bytes()).body if module.is_file() else ():
        for target in getattr(node, "targets", [getattr(node, "target", node)]):
            lines.setdefault(getattr(target, "name", getattr(target, "id", "")), node.lineno)
    return lines


def _remember_imports(app, doctree) -> None:
    """Store the imports of each piece of code, and of the code above it, in its node."""
    if not app.env.docname.startswith("notebooks/"):
        return
    imports: dict[str, str] = {}
    for node in doctree.findall(nodes.literal_block):
        if node.get("language") in LANGUAGES:
            imports = imports | imports_of(node.astext())
            node["imports"] = imports


def _addresses(builder, imports: dict[str, str], code: str) -> dict[str, str]:
    """Return the address of each dotted name in code that has one."""
    objects = builder.env.get_domain("py").objects
    found = {}
    chains = [c.split(".") for c in set(re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", code))]
    for dotted in {".".join(parts[: i + 1]) for parts in chains for i in range(len(parts))}:
        root, _, rest = dotted.partition(".")
        if root not in imports:
            continue
        qualified = f"{imports[root]}.{rest}".rstrip(".")
        if qualified in objects:
            entry = objects[qualified]
            page = builder.get_relative_uri(builder.current_docname, entry.docname)
            found[dotted] = f"{page}#{entry.node_id}"
        elif place := defined_in(qualified):
            found[dotted] = f"{builder.config.source_address}{place[0]}#L{place[1]}"
    return found


def _visit_code(translator, node) -> None:
    start = len(translator.body)
    try:
        HTML5Translator.visit_literal_block(translator, node)
    except nodes.SkipNode:
        if node.get("imports"):
            html = "".join(translator.body[start:])
            addresses = _addresses(translator.builder, node["imports"], node.astext())
            translator.body[start:] = [linked(html, addresses)]
        raise


def setup(app) -> dict[str, object]:
    """Register with Sphinx; ``source_address`` is where the repository's files can be read."""
    app.add_config_value("source_address", "", "html")
    app.connect("doctree-read", _remember_imports)
    app.add_node(
        nodes.literal_block,
        override=True,
        html=(_visit_code, HTML5Translator.depart_literal_block),
    )
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
