# Every target sets up what it needs; the second time that is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check format gpu-test clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: ## set up, watch a bundled trainer, read where its time goes, ask what would be faster
	@sh examples/demo.sh

test: $(READY) ## all tests that need no GPU
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m 'not gpu'

gpu-test: ## what needs a GPU, with the Python that has torch
	PYTHONPATH="src:$$PYTHONPATH" $(PYTHON) tests/gpu/together.py

check: $(READY) ## format, lint, types, import direction
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/unit/test_import_direction.py

format: $(READY) ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what the other targets made
	rm -rf $(VENV) .venv-demo .mypy_cache .pytest_cache .ruff_cache dist
