# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Add a paper to the book
#
# At the end of this page you have added a paper to a copy of this book and know what its tests will
# ask of yours.
#
# The folder `templates/paper` holds the smallest possible paper: one table with three printed numbers and a picture, and one
# claim. A test adds it to a copy of the project, runs it, then changes a printed number and checks that the run fails. Below are
# the same steps by hand.
#
# | step | file in the template | where it goes |
# | --- | --- | --- |
# | the printed numbers, as printed | `data/table1.csv` | `data/paper/KEY/` |
# | the exhibit and the claims | `data/exhibits.csv`, `data/claims.csv` | rows of `data/paper/exhibits.csv` and `claims.csv` |
# | the exhibit: parameters, `measure`, `judge`, `draw` | `table1.py` | `lib/companion/papers/KEY/` |
# | the paper in your words | `page.md` | `book/papers/` |
# | the notebook | `notebook.py` | `notebooks/KEY/` |
#
# `python templates/paper/add.py CHECKOUT` copies the files, appends the rows, and adds the paper's title to the registry and
# its two pages to the table of contents. It prints the nine files that it changes.

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Parameters of this page"}
profile = "quick"  # "quick" or "paper"
seed = 0  # every random draw derives from it
device = "cpu"  # or "cuda"
data_root = ""  # folder with the paper's data (paper profile)

# %% [markdown]
# ## Printed numbers
#
# A number is recorded as it is printed, because its last digit determines the tolerance of the comparison.

# %%
from companion.study import registry

template = registry.project_root() / "templates" / "paper"
print((template / "data" / "table1.csv").read_text())

# %% [markdown]
# ## The exhibit
#
# One file, named by the exhibit's id. `measure` gets a context (parameters, seed, data) and returns tables;
# `judge` gets tables, live or recorded, and yields verdicts; `draw` makes the picture from the same tables.
# Verdicts are computed, never typed: `compare` compares numbers to the printed digits, `check` evaluates a
# predicate, and `refute` requires that the printed statement fails and the corrected one holds. `ALTERED`
# names what was measured: a test requires that every verdict changes where it is altered, and the page prints
# the smallest change that does it.

# %%
print((template / "table1.py").read_text())

# %% [markdown]
# ## What a verdict does
#
# The template's comparison, with its own numbers and with one changed. A failed comparison returns a failed verdict and raises
# nothing, so that recorded and altered tables can be judged too; `raise_failed` stops a notebook.

# %%
import numpy as np

from companion.study.verdicts import VerdictError, compare, raise_failed

share = list(1 / (1 + np.exp(-np.array([0.5, 1.0, 2.0]))))
as_printed = compare("A-001", "shares", share, [0.62, 0.73, 0.88], ["0.62", "0.73", "0.88"])
changed = compare("A-001", "shares", share, [0.62, 0.75, 0.88], ["0.62", "0.75", "0.88"])
for verdict in (as_printed, changed):
    print(f"{verdict.status}: {verdict.ours}")
try:
    raise_failed([as_printed, changed])
except VerdictError as error:
    print(error)

# %% [markdown]
# ## What the tests require of a new paper
#
# A test fails if an exhibit, a claim or an erratum has no verdict, if a verdict has no falsifier or does not notice one, if a statement has no place on the paper's page, if a number
# was compared more loosely than it is printed, if a picture has no alternative text, or if an import violates the order of the
# packages. {doc}`../../book/developer` has the list.
