# All targets share one virtual environment, .venv in the root. It is updated when
# pyproject.toml or constraints.txt is newer. A comment after "##" is the text of "make help".
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DIST_VENV := .venv-dist
DIST_READY := $(DIST_VENV)/.ready
WORKFLOWS := $(wildcard .github/workflows/*.yml)
INSTALL := python -m pip install --quiet --disable-pip-version-check

# Tests start many processes. They read the compiled modules of the first one, also where Python is told not to
# write them.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: help demo test test-all test-fast test-install test-floor test-drawn test-nightly speed coverage fuzz lint docs links bench paper dist release-check release audit constraints clean

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

lint: $(READY)  ## ruff, typos, zizmor, mypy --strict and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/typos
	$(if $(WORKFLOWS),$(BIN)/zizmor --offline --quiet --no-progress .github)
	$(if $(WORKFLOWS),$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows $(WORKFLOWS))
	$(if $(WORKFLOWS),$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml)
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

# Environments of their own with other versions than those of constraints.txt: the oldest that pyproject.toml
# allows, any between these and the newest, and those of tomorrow. What old ones import is newer than they are, so
# that they use deprecated names. PySpark 3.5 leaves sockets open.
OLD := -W ignore::DeprecationWarning -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning
NIGHTLY := https://pypi.anaconda.org/scientific-python-nightly-wheels/simple

test-floor:  ## run the tests with the oldest versions allowed
	$(PYTHON) -m venv .venv-floor
	.venv-floor/bin/$(INSTALL) --constraint constraints.txt pip
	$(PYTHON) tools/versions.py floors > .venv-floor/versions.txt
	.venv-floor/bin/$(INSTALL) --constraint .venv-floor/versions.txt --editable '.[all]' --group dev
	OMP_NUM_THREADS=1 .venv-floor/bin/python -m pytest -n auto --dist worksteal -m "not slow" $(OLD)

test-drawn:  ## run the tests with versions drawn between the oldest and the newest; SEED=0 by default
	$(PYTHON) -m venv .venv-drawn
	.venv-drawn/bin/$(INSTALL) --constraint constraints.txt pip
	.venv-drawn/bin/python tools/versions.py drawn --seed $(or $(SEED),0) > .venv-drawn/versions.txt
	cat .venv-drawn/versions.txt
	.venv-drawn/bin/$(INSTALL) --constraint .venv-drawn/versions.txt --editable '.[all]' --group dev
	OMP_NUM_THREADS=1 .venv-drawn/bin/python -m pytest -n auto --dist worksteal -m "not slow" $(OLD)

test-nightly:  ## run the tests with nightly wheels of numpy, scipy, scikit-learn and pyarrow
	$(PYTHON) -m venv .venv-nightly
	.venv-nightly/bin/$(INSTALL) --constraint constraints.txt pip
	.venv-nightly/bin/$(INSTALL) --editable '.[all]' --group dev
	.venv-nightly/bin/$(INSTALL) --upgrade --pre --no-deps --index-url $(NIGHTLY) numpy scipy scikit-learn pyarrow
	OMP_NUM_THREADS=1 .venv-nightly/bin/python -m pytest -n auto --dist worksteal -m "not slow"

speed: $(READY)  ## compare the speed with that of another commit; BASE=main by default
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.regression $(or $(BASE),main)

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

# For all versions of Python and all systems at once. Torch itself says which libraries for GPUs it needs.
constraints: $(DIST_READY)  ## rewrite constraints.txt with the newest versions
	{ echo '# The versions that "make demo" and "make test" install. Rewritten by "make constraints".'; \
	  $(DIST_VENV)/bin/uv pip compile pyproject.toml --all-extras --group dev --group docs --universal --quiet \
	  --no-annotate --no-header | grep -Ev '^(cuda|nvidia|triton)'; } > .constraints
	test $$(wc -l < .constraints) -gt 1 && mv .constraints constraints.txt

clean:  ## remove .venv and everything that was built
	rm -rf $(VENV) $(DIST_VENV) .venv-floor .venv-drawn .venv-nightly build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Python 3.11 brings a pip that knows no dependency groups.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(INSTALL) --constraint constraints.txt pip
	$(BIN)/$(INSTALL) --constraint constraints.txt --editable '.[all]' --group dev --group docs
	touch $(READY)

$(DIST_READY): tools/requirements.txt
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/$(INSTALL) --requirement tools/requirements.txt
	touch $(DIST_READY)
