# Every target sets up what it needs in .venv; Python >= 3.11 with venv and pip is all that must be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-soak test-oldest fuzz audit lint style types quick-tests format docs docs-offline test-reproduction reproduce reproduce-quick clean

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
	$(BIN)/python examples/bayesian_optimization.py --out demo
	$(BIN)/python examples/particles_flowing.py --out demo
	$(BIN)/kosambi demo --out demo/pages --force

lint: style types ## style, types, and the direction of imports

style: $(VENV)/.dev-installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: $(VENV)/.dev-installed
	$(BIN)/mypy

# Two workers with one BLAS thread each; compiled programs are shared, see tests/conftest.py.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

# Tests that are not slow spend most of their time in the compiler, which is several times as fast without optimising.
# Flags that this version of jaxlib does not know are left out. `make test XLA_FLAGS=` optimises, as the slow tests do.
$(VENV)/.xla-flags: Makefile $(VENV)/.dev-installed
	@plain="--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"; \
	whole="$$plain --xla_cpu_parallel_codegen_split_count=1"; \
	for flags in "$$whole --xla_cpu_use_fusion_emitters=false" "$$whole" "$$plain" ""; do \
		XLA_FLAGS="$$flags" $(BIN)/python -c "import jax; jax.devices()" 2>/dev/null && break; \
	done; echo "$$flags" > $@

quick-tests: $(VENV)/.xla-flags
	XLA_FLAGS="$${XLA_FLAGS-$$(cat $(VENV)/.xla-flags)}" $(PYTEST)

# mypy, which has one thread, runs beside the tests; what it finds is among their dots, and make says so at the end.
test: style $(VENV)/.xla-flags ## lint, and all tests but the slow ones
	@$(MAKE) --no-print-directory -j 2 types quick-tests

test-slow: $(VENV)/.dev-installed ## statistical and paper-scale checks
	$(PYTEST) -m slow

test-soak: $(VENV)/.dev-installed ## a process that fits 300 models of 300 shapes, half an hour
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -m soak

# Other files each time: `make fuzz SEED=7 MINUTES=60`. What fails is kept in the current folder.
SEED ?= 0
MINUTES ?= 5
fuzz: $(VENV)/.dev-installed ## load files with random faults for five minutes: refused or loaded, soon, in little memory
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.files.fuzz --seed $(SEED) --minutes $(MINUTES)

# In an environment of its own, since it brings packages that nothing here needs; asks PyPI for known weaknesses.
.venv-audit/.installed: Makefile
	$(PYTHON) -m venv --clear .venv-audit
	.venv-audit/bin/python -m pip install -q --disable-pip-version-check "pip-audit>=2.7"
	@touch $@

# Strict: a package that cannot be asked about is a failure, for else an audit without a network would find nothing.
audit: .venv-audit/.installed $(VENV)/.dev-installed ## known weaknesses of the packages that kosambi and its tests use
	$(BIN)/python -m pip freeze --exclude-editable > .venv-audit/requirements.txt
	.venv-audit/bin/pip-audit --strict --progress-spinner off --disable-pip --no-deps -r .venv-audit/requirements.txt

.venv-oldest/.installed: pyproject.toml tests/oldest.py
	$(PYTHON) -m venv --clear .venv-oldest
	.venv-oldest/bin/python tests/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install -q --disable-pip-version-check -c .venv-oldest/constraints.txt \
		-e ".[cli,parquet,arviz]" pytest pytest-xdist beartype
	@touch $@

test-oldest: .venv-oldest/.installed ## a short walk through everything with the lowest versions of the dependencies
	.venv-oldest/bin/python -m pytest -n 2 --dist worksteal -W default -m smoke \
		-o addopts="--import-mode=importlib --strict-markers" tests/test_smoke.py

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

# The npm package of MathJax is data here: its script and fonts are copied, nothing of it is run.
$(VENV)/mathjax/package: | $(BIN)/python
	mkdir -p $(@D)
	cd $(@D) && npm pack --silent mathjax@3.2.2 && tar -xzf mathjax-3.2.2.tgz

docs-offline: $(VENV)/.docs-installed $(VENV)/mathjax/package ## the same with MathJax inside, for readers without a network; needs npm
	MATHJAX=$(VENV)/mathjax/package NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove everything that make made
	rm -rf $(VENV) .venv-oldest .venv-audit fuzz-*.kosambi site demo reproduction/output build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src tests reproduction -name __pycache__ -type d -prune -exec rm -rf {} +
