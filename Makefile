# make help    what there is
#
# Everything runs in a virtual environment of its own, made on first use from pinned versions.
# PY=python (or any other interpreter with the requirements) uses that one instead, so that
# an active conda environment can serve: make book PY=python

PROFILE ?= quick
SEED ?= 0
DEVICE ?= cpu
DATA_ROOT ?=
JOBS ?= 2
SCHEDULER ?=
WITHIN ?=
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# fixed, own or plain: see lib/companion/kernels.py
KERNELS ?= fixed

# glibc keeps freed memory for the next array of up to a gibibyte: asking the system for each anew,
# page by page, takes a twentieth of the notebooks' time, of some a fifth
export MALLOC_MMAP_THRESHOLD_ ?= 1073741824
export MALLOC_TRIM_THRESHOLD_ ?= 4294967296
# the code is compiled once, not by each of a hundred kernels and workers (half a second each)
unexport PYTHONDONTWRITEBYTECODE

ifdef PY
READY :=
else
PY := $(VENV)/bin/python
READY := $(VENV)/.installed
endif

CLUSTER := $(if $(SCHEDULER),--scheduler "$(SCHEDULER)")
HOURS := $(if $(WITHIN),--within "$(WITHIN)")
BOOK := $(PY) -m companion.cli book
TEST = RECONRISK_KERNELS="$(KERNELS)" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PY) -m pytest \
    notebooks tests lib/reconrisk lib/companion -n "$(JOBS)" --doctest-modules \
    --nbval --nbval-current-env --nbval-sanitize-with tests/nbval.cfg

.DEFAULT_GOAL := help
# what `make check` runs of the tests
FAST := tests/consistency/test_tables.py tests/consistency/test_project.py tests/unit/test_verdicts.py \
    tests/unit/test_exhibits.py tests/unit/test_registry.py tests/unit/test_results.py \
    tests/unit/test_records.py tests/property/test_verdicts.py

.PHONY: book html sphinx pdf refresh spread test test-changed check lint mutants links package release archive clean help

book: $(READY) ## run every notebook and compile the book: PROFILE SEED DEVICE DATA_ROOT JOBS SCHEDULER WITHIN
	@$(BOOK) build --profile "$(PROFILE)" --seed "$(SEED)" --device "$(DEVICE)" \
	    --data-root "$(DATA_ROOT)" --jobs "$(JOBS)" $(CLUSTER) $(HOURS) $(ARGS)

html: $(READY) ## compile the book from the stored outputs; run nothing
	@$(BOOK) html $(ARGS)

pdf: $(READY) ## compile the book from the stored outputs and print it, and slides of its tour (needs Chromium)
	@$(BOOK) pdf $(ARGS)

refresh: $(READY) ## run every notebook with its own parameters and store the outputs
	@$(BOOK) refresh --jobs "$(JOBS)" $(CLUSTER) $(ARGS)

spread: $(READY) ## run every notebook with other kernels and store how far its tables are off
	@$(BOOK) spread --jobs "$(JOBS)" $(ARGS)

# nbval runs the notebooks in this very environment and compares all they store; each file and
# notebook runs whole on one worker (conftest.py), with one thread, so that workers do not compete;
# --whole-suite fails the run if any group of tests ran nothing.
test: $(READY) ## run every test, with JOBS workers; KERNELS=own or plain: as another machine would
	@$(TEST) --whole-suite $(ARGS)

test-changed: $(READY) ## run the tests and notebooks that a change since they last passed here reaches
	@$(TEST) --changed $(ARGS)

check: lint ## what every commit passes, a minute: lint, types, import contracts, fast tests
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PY) -m pytest $(FAST) -q -n "$(JOBS)"

lint: $(READY) ## check style, types and which room imports which
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

mutants: $(READY) ## break the methods one by one and store what notices (an hour): JOBS at once
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PY) tests/mutants/run.py --jobs "$(JOBS)" $(ARGS)

links: $(READY) ## check the book's external links (needs the network)
	@$(BOOK) links

# The way out of Jupyter Book 1, which is frozen: Sphinx alone compiles the same sources (book/conf.py),
# in an environment of its own that sees the other one's packages.
SPHINX := _build/sphinx
SPHINX_TOOLS := sphinx==9.0.4 myst-nb==1.4.0 sphinx-book-theme==1.4.0 sphinx-external-toc==1.1.0 \
    sphinx-design==0.8.0 sphinx-togglebutton==0.4.5 sphinx-copybutton==0.5.2 sphinxcontrib-bibtex==2.7.0 \
    sphinx-proof==0.4.0
sphinx: html ## compile the pages by Sphinx 9 alone into _build/sphinx/html (needs an index)
	@test -x $(SPHINX)/bin/sphinx-build || { $(PYTHON) -m venv $(SPHINX) && \
	    $(SPHINX)/bin/python -m pip install -qq $(SPHINX_TOOLS); }
	@for site in $(SPHINX)/lib/python*/site-packages; do \
	    $(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$$site/others.pth"; done
	@PYTHONPATH=lib $(SPHINX)/bin/sphinx-build -b html -n -W --keep-going -q _build/source $(SPHINX)/html

# The tools of a release have an environment of their own: nothing else needs them.
RELEASE := _build/release
RELEASE_TOOLS := build==1.6.1 twine==7.0.0 cffconvert==2.0.0
package: ## build the library's sdist and wheel into _build/dist and check them (needs an index)
	@test -x $(RELEASE)/bin/twine || { $(PYTHON) -m venv $(RELEASE) && \
	    $(RELEASE)/bin/python -m pip install -qq $(RELEASE_TOOLS); }
	@rm -rf _build/dist build
	@$(RELEASE)/bin/python -m build --outdir _build/dist . >_build/release.log 2>&1 \
	    || { tail -20 _build/release.log; exit 1; }
	@$(RELEASE)/bin/twine check --strict _build/dist/*
	@$(RELEASE)/bin/cffconvert --validate

release: $(READY) ## write VERSION=0.2.0 and today's date where they stand, then build the packages
	@$(PY) -m companion.cli release "$(VERSION)"
	@$(MAKE) --no-print-directory package

archive: $(READY) ## gather what an archive should hold of this commit, with checksums
	@$(PY) -m companion.cli archive

clean: ## remove what was built; the environment stays
	rm -rf _build .pytest_cache .ruff_cache .mypy_cache .hypothesis build
	find lib tests notebooks -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## show this
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F'\t' '{printf "make %-12s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml lib/companion/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "Python 3.11 or newer is needed; name one with PYTHON=..."; exit 1; }
	@test -x $(VENV)/bin/python || { echo "Making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing the requirements (a few minutes)"
	@PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore $(VENV)/bin/python -m pip \
	    install -qq -c constraints.txt -e . -e 'lib/companion[book,test]'
	@touch $@
