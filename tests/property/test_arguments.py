"""Numbers that no function means, put into the examples of every public function; strict hosts.

Each number of an example's calls is replaced by nan, a text, or, where it is whole, the float that
equals it. What comes back is no nan; what is refused is refused in words that say what must be.
"""

import ast
import doctest
import importlib
import inspect
import math
import warnings

import numpy as np
import pytest

MODULES = ("attacks", "bounds", "mechanisms", "metrics", "privacy", "special", "training", "risk")
#: takes five seconds a call
_DEAR = "bounds.audit_noise"
#: what an error says that explains itself
_EXPLAINED = (" must ", "give exactly one of")


def _examples(module):
    """Yield the name and the code of the examples of each public name of a module."""
    found = importlib.import_module(f"reconrisk.{module}")
    for name in found.__all__:
        parsed = doctest.DocTestParser().get_examples(inspect.getdoc(getattr(found, name)) or "")
        code = "".join(e.source for e in parsed if doctest.SKIP not in e.options)
        if "reconrisk" in code and f"{module}.{name}" != _DEAR:
            yield f"{module}.{name}", code


EXAMPLES = dict(pair for module in MODULES for pair in _examples(module))


def _numbers(tree):
    """Yield the parent, field and index of every number that a name of the library is given."""
    ours = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("reconrisk")
        for alias in node.names
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        called = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        if not (isinstance(called, ast.Name) and called.id in ours):
            continue
        places = [(call.args, i) for i in range(len(call.args))]
        places += [(keyword.__dict__, "value") for keyword in call.keywords]
        for holder, at in places:
            value = holder[at]
            if isinstance(value, (ast.List, ast.Tuple)) and value.elts:
                holder, at = value.elts, -1
            if isinstance(holder[at], ast.Constant) and type(holder[at].value) in (int, float):
                yield holder, at


def _run(tree):
    """Run statements; return the value of the last expression."""
    names, last = {}, None
    for statement in tree.body:
        if isinstance(statement, ast.Expr):
            last = eval(compile(ast.Expression(statement.value), "example", "eval"), names)
        else:
            exec(compile(ast.Module([statement], []), "example", "exec"), names)
    return last


def _altered(code):
    """Yield a description, whether a number is replaced by its equal, and the altered code."""
    for position in range(len(list(_numbers(ast.parse(code))))):
        for wrong in (math.nan, "x", None):
            tree = ast.parse(code)
            holder, at = list(_numbers(tree))[position]
            given = holder[at].value
            if wrong is None and type(given) is float:
                continue
            holder[at] = ast.copy_location(
                ast.Constant(float(given) if wrong is None else wrong), holder[at]
            )
            yield f"{wrong!r} for {given}, number {position}", wrong is None, tree


@pytest.mark.parametrize("name", EXAMPLES)
def test_numbers_that_cannot_be_meant_are_refused_in_words(name):
    faults = []
    for what, equal, tree in _altered(EXAMPLES[name]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                found = _run(tree)
            except (TypeError, ValueError) as error:
                if equal or not any(words in str(error) for words in _EXPLAINED):
                    faults.append(f"{what}: {type(error).__name__}: {error}")
                continue
        if "nan" in repr(found) or not equal:
            faults.append(f"{what}: accepted, {found!r}")
    assert not faults


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_where_the_host_makes_errors_of_underflow(name):
    with np.errstate(all="raise"):
        _run(ast.parse(EXAMPLES[name]))
