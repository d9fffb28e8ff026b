PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEV    := $(VENV)/.ready-dev

.PHONY: demo test test-slow test-pace lint api bench clean

demo: $(READY)
	$(BIN)/whorl demo

test: lint
	$(BIN)/pytest -m "not slow" -q -n auto

test-slow: $(DEV)
	$(BIN)/pytest -m slow -q

# The tests that start processes, with trainings ten times slower and many times faster (tests/child/sitecustomize.py).
# Sleeping costs no processor time, so the slow ones share the cores.
PROCESSES := tests/cli tests/grid tests/data/test_source.py
test-pace: $(DEV)
	PYTHONPATH=$(CURDIR)/tests/child WHORL_PACE=slow $(BIN)/pytest -m "not slow" -q -n 4 $(PROCESSES)
	PYTHONPATH=$(CURDIR)/tests/child WHORL_PACE=fast $(BIN)/pytest -m "not slow" -q -n auto $(PROCESSES)

lint: $(DEV)
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/mypy
	@echo pyright: the types of the public interface are complete
	@found=$$(PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/basedpyright --verifytypes whorl --ignoreexternal) || { echo "$$found"; exit 1; }

# Writes docs/api.md from the docstrings; a test checks that it is up to date.
api: $(DEV)
	$(BIN)/python docs/api.py

bench: $(DEV)
	$(BIN)/python benchmarks/overhead.py

clean:
	rm -rf $(VENV) demo build dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

$(DEV): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	touch $@ $(READY)
