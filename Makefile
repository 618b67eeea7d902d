# Needs make and Python 3.11 or newer with its venv module; everything else is installed into .venv.
#   make PYTHON=python3.12 test     another interpreter, for a .venv that does not exist yet
#   make WORKERS=8 test             more test processes

PYTHON ?= python3
WORKERS ?= 2
PYTEST_FLAGS ?=
DEEP ?= deep
DEMO_OUT ?= demo-run

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --benchmark-disable $(PYTEST_FLAGS)

# Stamps: an installation runs again only when what it installs has changed.
RUN_READY := $(VENV)/.ready-to-run
TEST_READY := $(VENV)/.ready-to-test

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint tests test-deep bench docs clean distclean

help:  ## this list
	@echo "make TARGET, where TARGET is"
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(RUN_READY)  ## train PriRec on a synthetic city, through the real protocols
	@echo "Training PriRec on the embedded synthetic city (--mode protocol):"
	@$(BIN)/privrec train prirec --out $(DEMO_OUT) --force
	@test -s $(DEMO_OUT)/public/report.html
	@echo "The report is $(DEMO_OUT)/public/report.html"

test: lint tests  ## linters, type checks and every test but the deep ones

lint: $(TEST_READY)  ## ruff and mypy --strict
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

tests: $(TEST_READY)
	$(PYTEST) tests

test-deep: $(TEST_READY)  ## only the deep tests: large samples and real data
	$(PYTEST) --deep -m '$(DEEP)' tests

bench: $(TEST_READY)  ## all benchmarks, then the ratios to limits and peers as JSON
	$(BIN)/python -m pytest benchmarks --benchmark-only
	$(BIN)/python -m benchmarks.ratios --json

docs: $(TEST_READY)  ## HTML pages in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo "The pages start at docs/_build/html/index.html"

clean:  ## remove what the other targets made, except .venv and the peer environments
	rm -rf build dist *.egg-info docs/_build docs/api $(DEMO_OUT)
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -not -path './.*' -prune -exec rm -rf {} +

distclean: clean  ## remove .venv and the peer environments too
	rm -rf $(VENV) .peers

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "privrec needs Python 3.11 or newer, but $(PYTHON) is missing or older;" \
	       "name another one with make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot create a virtual environment; install its venv module" \
	       "(on Debian: apt-get install python3-venv)" >&2; exit 1; }

$(RUN_READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing privrec and what it runs on into $(VENV); this takes a minute"
	@$(INSTALL) -e '.[recsys]'
	@touch $@

$(TEST_READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing privrec with its test, lint and docs tools into $(VENV); this takes a minute"
	@$(INSTALL) -e '.[dev,phe]'
	@touch $@ $(RUN_READY)
