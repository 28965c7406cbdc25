# Everything is installed in .venv, with the versions of constraints.txt; nothing outside this folder is touched.
#   make demo                      see it work
#   make test ARGS="-k noise"      hand arguments on to pytest
#   make test PYTHON=python3.12    another Python (when .venv is first made)

PYTHON ?= python3
WORKERS ?= 2
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python

# uv reads its own variables: hand it pip's folders of wheels and index (nothing to hand on is fine).
empty :=
space := $(empty) $(empty)
comma := ,
ifndef UV_FIND_LINKS
export UV_FIND_LINKS := $(subst $(space),$(comma),$(strip $(PIP_FIND_LINKS)))
endif
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

# One thread a process: two pytest workers with two threads each are slower than with one, and golden numbers depend on it.
SOAK = tests/test_crash.py tests/test_damage.py tests/test_faults.py tests/test_hostile.py tests/test_review_hostile.py tests/test_fuzz.py \
  tests/test_review.py::test_a_million_instances tests/test_page.py::test_a_million_instances tests/test_torchrun.py
# worksteal: each worker begins with a stretch of the files, so that what the tests of a file share is made once, not twice.
PYTEST = OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) --dist worksteal

# $(call install,REQUIREMENT): with uv where it is to be had, with pip where not.
define install
	@echo "Installing $(1) into $(VENV)"
	@if $(BIN)/uv pip install -q --compile-bytecode --python $(PY) -c constraints.txt -e "$(1)" 2>$(VENV)/uv.log; then :; \
	else \
	  if [ -x $(BIN)/uv ]; then cat $(VENV)/uv.log; echo "uv could not install it; trying pip"; fi; \
	  $(PY) -m pip install -q -c constraints.txt -e "$(1)"; \
	fi
endef

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak check lint types format docs versions ray build lock audit clean

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.dev ## Install Marvel and all that its tests need into .venv

demo: $(VENV)/.base ## Install Marvel (base dependencies only) and run its demonstration
	$(BIN)/marvel demo $(ARGS)

test: $(VENV)/.dev ## Run the tests that need neither a GPU nor a browser nor much time
	$(PYTEST) -m "not slow and not dist and not gpu and not browser" $(ARGS)

soak: $(VENV)/.soak ## Try for an hour what tests try for a moment: kills, faults, hostile input, load; writes docs/reliability.md
	rm -f $(VENV)/soak.jsonl
	MARVEL_SOAK=$(CURDIR)/$(VENV)/soak.jsonl OMP_NUM_THREADS=1 $(PY) -m pytest -p no:cacheprovider $(SOAK) $(ARGS)
	$(PY) tests/soaking.py $(VENV)/soak.jsonl

check: lint types test ## Format, lint, types and tests: what must pass before a commit

lint: $(VENV)/.dev ## Check the format and the lint rules
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .

types: $(VENV)/.dev ## Check the types
	$(PY) -m mypy

format: $(VENV)/.dev ## Bring the code into its format, and mend what can be mended
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

versions: $(VENV)/.dev ## Try the oldest and the newest versions Marvel works with, in environments of their own
	$(PY) -m benchmarks.versions --workers $(WORKERS) $(ARGS)

docs: $(VENV)/.docs ## Build the documentation into docs/_build/html; a warning is an error
	OMP_NUM_THREADS=1 $(PY) -m sphinx -b html -d docs/_build/doctrees -n -W --keep-going -q docs docs/_build/html
	@echo "open docs/_build/html/index.html"

build: $(VENV)/.dev ## Build the source archive and the wheel into dist/
	rm -rf dist
	$(PY) -m build

lock: $(VENV)/.dev ## Write requirements.lock: the tested set with the hashes of its files, without torch
	@{ echo "# Made by 'make lock': the tested set with the hashes of its files, without torch, of which each machine has its build:"; \
	  echo "#   pip install torch && pip install --no-deps --require-hashes -r requirements.lock && pip install --no-deps -e ."; \
	  $(BIN)/uv pip compile -q --extra dev -c constraints.txt --generate-hashes --no-annotate --no-header \
	    --no-emit-package torch --python-version 3.11 pyproject.toml; } > $(VENV)/requirements.lock
	@mv $(VENV)/requirements.lock requirements.lock

audit: $(VENV)/.soak ## Ask PyPI's advisories about the tested set
	$(PY) .ci/audit.py requirements.lock

ray: ## Test `marvel bench --engine ray` on a real, local Ray, in an environment of its own
	[ -x $(VENV)-ray/bin/python ] || $(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip install -q -c constraints.txt -e ".[ray]" pytest pytest-timeout hypothesis
	OMP_NUM_THREADS=1 $(VENV)-ray/bin/python -m pytest -p no:cacheprovider tests/test_engines.py -k real_ray $(ARGS)

clean: ## Remove .venv and everything that was built
	rm -rf $(VENV) $(VENV)-ray dist build docs/_build docs/about docs/api docs/method .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.python:
	@$(PYTHON) --version >/dev/null 2>&1 || \
	  { echo "error: no '$(PYTHON)' here. Marvel needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Marvel needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@[ -x $(PY) ] || $(PYTHON) -m venv $(VENV) || \
	  { echo "error: '$(PYTHON) -m venv $(VENV)' failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 1; }
	@[ -x $(BIN)/uv ] || $(PY) -m pip install -q --disable-pip-version-check uv || echo "uv is not to be had; using pip, which takes longer"
	@touch $@

$(VENV)/.base: $(VENV)/.python pyproject.toml constraints.txt
	$(call install,.)
	@touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml constraints.txt
	$(call install,.[dev])
	@touch $(VENV)/.base $@

$(VENV)/.soak: $(VENV)/.dev
	$(call install,.[soak])
	@touch $@

$(VENV)/.docs: $(VENV)/.python pyproject.toml constraints.txt
	$(call install,.[docs])
	@touch $(VENV)/.base $@
