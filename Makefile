# numbawave: `make` alone prints the targets. Each one sets up what it needs in .venv first.
PYTHON ?= python3
WORKERS ?= 2
PY := .venv/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install demo test test-sim test-gpu lint format types imports notebooks docs flagship tools but-tests no-compiler bench bench-gpu levers-gpu plans decision-table budgets check clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The stamps say what .venv holds; they are made again when the packaging changes.
.venv/package.stamp: setup.cfg pyproject.toml constraints.txt
	@echo "==> making .venv and installing numbawave (PyTorch is the large part; a few minutes the first time)"
	@test -x $(PY) || $(PYTHON) -m venv .venv
	@$(PIP) install -c constraints.txt torch
	@$(PIP) install -c constraints.txt -e .
	@touch $@

.venv/tools.stamp: .venv/package.stamp
	@echo "==> installing the tools for tests, checks and notebooks"
	@$(PIP) install -c constraints.txt -e '.[test,notebooks]'
	@echo "==> installing the reference peer and segyio, where they have wheels"
	@for package in deepwave segyio; do \
		$(PIP) install -c constraints.txt --only-binary $$package $$package \
			|| echo "    $$package: none for this machine, so the tests that need it are skipped"; \
	done
	@touch $@

.venv/docs.stamp: .venv/package.stamp
	@echo "==> installing the tools for the documentation"
	@$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@

install: .venv/package.stamp  ## make .venv and install numbawave in it
	@echo "==> ready: .venv/bin/numbawave --help"

demo: .venv/package.stamp  ## invert a built-in section and draw the result
	@echo "==> numbawave demo"
	@.venv/bin/numbawave demo

test: .venv/tools.stamp  ## run the tests
	@echo "==> pytest"
	@$(PY) -m pytest -n $(WORKERS)

test-sim: .venv/tools.stamp  ## run the GPU's tests without one, in Numba's simulator
	@echo "==> pytest, simulating a GPU"
	@NUMBA_ENABLE_CUDASIM=1 $(PY) -m pytest -m gpu -n $(WORKERS)

test-gpu: .venv/tools.stamp  ## run the GPU's tests on a GPU
	@echo "==> pytest, on a GPU"
	@$(PY) -m pytest -m gpu

lint: .venv/tools.stamp  ## check style, format and spelling
	@echo "==> ruff and codespell"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@.venv/bin/codespell

format: .venv/tools.stamp  ## format the code
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

types: .venv/tools.stamp  ## check the types (mypy, strict)
	@echo "==> mypy"
	@$(PY) -m mypy

imports: .venv/tools.stamp  ## check which room imports which
	@echo "==> import-linter"
	@.venv/bin/lint-imports --no-cache

notebooks: .venv/tools.stamp  ## run the notebooks at a small size
	@mkdir -p build/notebooks
	@for notebook in notebooks/*.py; do \
		echo "==> $$notebook"; \
		NUMBAWAVE_NOTEBOOK_SIZE=small $(PY) -m jupytext --quiet --to ipynb --set-kernel python3 \
			--execute --run-path notebooks --output "build/notebooks/$$(basename "$$notebook" .py).ipynb" \
			"$$notebook" || exit 1; \
	done

docs: .venv/docs.stamp  ## build the documentation, in build/docs; a warning is an error
	@echo "==> sphinx: build/docs/index.html"
	@$(PY) -m sphinx -q -W --keep-going -b html docs build/docs

flagship: .venv/package.stamp  ## invert in 3-D past one GPU's memory (without a GPU, a small trial)
	@echo "==> docs/examples/flagship_3d_fwi.py"
	@mkdir -p build
	@$(PY) docs/examples/flagship_3d_fwi.py --output build/flagship.png \
		$$($(PY) -c 'import torch; torch.cuda.is_available() or print("--quick")')

no-compiler: .venv/package.stamp  ## prove that installing needs no compiler
	@echo "==> pip install . with compilers that always fail"
	@.ci/no_compiler .venv

bench: .venv/tools.stamp  ## time numbawave beside the reference peer
	@$(PY) tests/benchmarks/against_peer.py

bench-gpu: .venv/tools.stamp  ## time numbawave beside the reference peer on a GPU
	@$(PY) tests/benchmarks/gpu_against_peer.py

levers-gpu: .venv/tools.stamp  ## measure on a GPU what the levers of memory take and cost
	@$(PY) tests/benchmarks/levers_on_gpu.py

plans: .venv/tools.stamp  ## compare plans of memory with what random calls take
	@MALLOC_MMAP_THRESHOLD_=65536 $(PY) tests/benchmarks/plans.py

decision-table: .venv/tools.stamp  ## measure which levers make a gradient fit on which card, into build/decision-table
	@$(PY) tests/benchmarks/decision_table.py

budgets: .venv/tools.stamp  ## compare what memory="auto" chooses with all that fits
	@$(PY) tests/benchmarks/budgets.py

tools: .venv/tools.stamp .venv/docs.stamp  ## install what the checks need

but-tests: test-sim lint types imports no-compiler notebooks docs  ## all of the checks but the tests; -j2 after "make tools"

check: but-tests test  ## all of the checks, tests last

clean:  ## remove .venv, builds and caches
	@rm -rf .venv build dist numbawave.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	@find numbawave tests -name __pycache__ -type d -prune -exec rm -rf {} +
