# All targets share one virtual environment, .venv in the root. It is updated when
# pyproject.toml or constraints.txt is newer. A comment after "##" is the text of "make help".
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DIST_VENV := .venv-dist
DIST_READY := $(DIST_VENV)/.ready

# Tests start many processes. They read the compiled modules of the first one, also where Python is told not to
# write them.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: help demo test test-all test-fast test-install test-floor coverage fuzz lint docs links bench paper dist release-check release audit constraints clean

help:  ## list the targets (the default)
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1|/' | awk -F'|' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: $(READY)  ## train on digits, change the share of positives, adapt, show the result
	$(BIN)/python -m drpu.demo

# Lint runs beside the tests, so that no core waits for mypy.
test:  ## lint, types, import contracts, tests and doctests, without the tests marked "slow"
	@$(MAKE) --no-print-directory --jobs=2 lint test-fast

test-all: lint  ## the same with the tests marked "slow"
	$(PYTEST)

# Needs a package index. The tests themselves run in an environment that has every extra.
test-install: $(READY)  ## README's example after README's install commands, each in an environment of its own
	$(BIN)/python -m pytest -q -m slow tests/test_readme.py

# One thread per worker, because the workers share the cores. Each starts with one half of the tests, so that
# fixtures are made once, and takes from the other when it is done.
test-fast: $(READY)  ## the tests of "make test" alone
	$(PYTEST) -m "not slow"

coverage: $(READY)  ## the tests of "make test" with the share of lines they run; fails below 90 %
	$(PYTEST) -m "not slow" --cov --cov-fail-under=90 --cov-report=xml \
	  --cov-report=markdown-append:$(or $(GITHUB_STEP_SUMMARY),coverage.md)

lint: $(READY)  ## ruff, mypy --strict and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers auto
	$(BIN)/lint-imports

docs: $(READY)  ## build the documentation site in site/; a warning is an error
	$(BIN)/mkdocs build --strict

links:  ## ask every address in the documentation whether it still exists; needs the network
	$(PYTHON) tools/links.py

bench: $(READY)  ## run the benchmarks that need no tables, rewrite benchmarks/results
	$(BIN)/python -m benchmarks

fuzz: $(READY)  ## edit artifacts and load them; EDITS=20000 and SEED=0 by default
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.hardening --dry --parts edits --edits $(or $(EDITS),20000) --seed $(or $(SEED),0)

# An environment of its own with the oldest versions that pyproject.toml allows. What these import is newer than
# they are, so that they use deprecated names. PySpark 3.5 leaves sockets open.
test-floor:  ## run the tests with the oldest versions allowed
	$(PYTHON) -m venv .venv-floor
	$(PYTHON) tests/floors.py > .venv-floor/floors.txt
	.venv-floor/bin/pip install --quiet --disable-pip-version-check --constraint .venv-floor/floors.txt --editable '.[all,dev]'
	OMP_NUM_THREADS=1 .venv-floor/bin/python -m pytest -n auto --dist worksteal -m "not slow" -W ignore::DeprecationWarning \
	  -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

paper: $(READY)  ## run the experiments of the paper and rewrite its tables and page
	$(BIN)/python -m paper run
	$(BIN)/python -m paper tables
	$(BIN)/python -m paper page

dist: $(DIST_READY)  ## build sdist and wheel twice, compare, check, install and use them; writes dist/
	$(DIST_VENV)/bin/python tools/dist.py

release-check: dist  ## dry run of a release: builds, and says what would stop it
	$(DIST_VENV)/bin/python tools/release.py --dry-run

release: dist  ## the same, and fails if anything would stop it; RELEASING.md says what comes next
	$(DIST_VENV)/bin/python tools/release.py

audit: $(DIST_READY)  ## known vulnerabilities of the versions in constraints.txt; needs pypi.org
	$(DIST_VENV)/bin/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

constraints:  ## install the newest versions and rewrite constraints.txt
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	printf 'torch==2.13.0\n' > $(VENV)/torch.txt
	$(BIN)/pip install --quiet --constraint $(VENV)/torch.txt --editable '.[all,dev,docs]'
	{ echo '# The versions that "make demo" and "make test" install. Rewritten by "make constraints".'; \
	  $(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//'; } > constraints.txt
	touch $(READY)

clean:  ## remove .venv and everything that was built
	rm -rf $(VENV) $(DIST_VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev,docs]'
	touch $(READY)

$(DIST_READY): tools/requirements.txt
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement tools/requirements.txt
	touch $(DIST_READY)
