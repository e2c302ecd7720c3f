"""Names in Python code lead to where they are described.

On a notebook's page, each name that the code imports, and what is reached through it
(``bounds.rero``), becomes a link: to its API page if there is one, else, for the companion's own
modules, to the line of the repository that defines it. Imports are read from the code itself, so
that nothing is run.
"""

import ast
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
    """Return what each name stands for that Python code imports; nothing if it is no Python."""
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
    """Return highlighted code in which dotted names are links, the longest that has an address."""

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
    """Return the file of the repository and the line that define a name of the companion."""
    if not qualified.startswith("companion."):
        return None
    library = Path(importlib.util.find_spec("companion").origin).parents[1]
    file = library.joinpath(*qualified.split("."))
    for path, line in ((file / "__init__.py", 1), (file.with_suffix(".py"), 1)):
        if path.is_file():
            return f"lib/{path.relative_to(library).as_posix()}", line
    path, name = file.parent.with_suffix(".py"), file.name
    if path.is_file():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = getattr(node, "targets", [getattr(node, "target", node)])
            if name in [getattr(t, "name", getattr(t, "id", "")) for t in targets]:
                return f"lib/{path.relative_to(library).as_posix()}", node.lineno
    return None


def _remember_imports(app, doctree) -> None:
    """Keep with each piece of code what its names stand for, by it and the code above it."""
    if not app.env.docname.startswith("notebooks/"):
        return
    known: dict[str, str] = {}
    for node in doctree.findall(nodes.literal_block):
        if node.get("language") in LANGUAGES:
            known = known | imports_of(node.astext())
            node["imports"] = known


def _ends(chain: str) -> list[int]:
    """Where the parts of a dotted name end."""
    return [*(dot.start() for dot in re.finditer(r"\.", chain)), len(chain)]


def _addresses(builder, imports: dict[str, str], code: str) -> dict[str, str]:
    """Return the address of each dotted name in code that has one."""
    objects = builder.env.get_domain("py").objects
    found = {}
    chains = set(re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", code))
    for dotted in {chain[:end] for chain in chains for end in _ends(chain)}:
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
