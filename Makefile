# Every target sets up what it needs in .venv; Python >= 3.11 with venv and pip is all that must be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-oldest lint format docs test-reproduction reproduce reproduce-quick clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "make %-18s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kosambi needs Python 3.11 or later; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Stamps: installed once, and again when pyproject.toml changes.
$(VENV)/.dev-installed: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[dev]"
	@touch $@

$(VENV)/.docs-installed: $(VENV)/.dev-installed
	$(PIP) -e ".[docs]"
	@touch $@

$(VENV)/.bench-installed: reproduction/requirements.txt $(VENV)/.dev-installed
	$(PIP) -r reproduction/requirements.txt
	@touch $@

demo: $(VENV)/.dev-installed ## fit three tables with pages, and run the examples, all into demo/
	$(BIN)/python examples/prior_functions.py --out demo
	$(BIN)/python examples/hyperparameters.py --out demo
	$(BIN)/python examples/posterior_particles.py --out demo
	$(BIN)/python examples/predictions.py --out demo
	$(BIN)/python examples/trust.py --out demo
	$(BIN)/python examples/thompson_sampling.py --out demo
	$(BIN)/kosambi demo --out demo/pages --force

lint: $(VENV)/.dev-installed ## style, types, and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two workers with one thread of BLAS each, and one cache of compiled programs for both.
PYTEST := OPENBLAS_NUM_THREADS=1 JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.pytest_cache/compiled \
	JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.2 $(BIN)/pytest -n 2 --dist worksteal

test: lint ## lint, then all tests but the slow ones
	$(PYTEST)

test-slow: $(VENV)/.dev-installed ## statistical and paper-scale checks
	$(PYTEST) -m slow

test-oldest: ## a short walk through everything with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv .venv-oldest
	$(PYTHON) tests/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install -q --disable-pip-version-check -c .venv-oldest/constraints.txt -e ".[cli,parquet,arviz]" pytest pytest-xdist beartype
	OPENBLAS_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -m smoke tests/test_smoke.py

test-reproduction: $(VENV)/.dev-installed ## all tests of the paper's experiments
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -m "slow or not slow" \
		--jaxtyping-packages=kosambi,reproduction,beartype.beartype reproduction

reproduce-quick: $(VENV)/.bench-installed ## the paper's experiments on four data sets, into reproduction/output/
	$(BIN)/python -m reproduction --quick --jobs 2

reproduce: $(VENV)/.bench-installed ## all of them, into docs/results; go on after an interruption with the same command
	$(BIN)/python -m reproduction --out docs/results --page docs/results.md

format: $(VENV)/.dev-installed ## rewrite the code in the house style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.docs-installed ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove everything that make made
	rm -rf $(VENV) .venv-oldest site demo reproduction/output build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src tests reproduction -name __pycache__ -type d -prune -exec rm -rf {} +
