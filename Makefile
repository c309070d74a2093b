# One virtual environment in the root serves every target; it is rebuilt when
# pyproject.toml or constraints.txt is newer than it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint docs bench paper constraints clean

demo: $(READY)
	$(BIN)/python -m drpu.demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto  # one thread a worker: the workers share the cores

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)
	$(BIN)/mkdocs build --strict

bench: $(READY)
	$(BIN)/python -m benchmarks

paper: $(READY)
	$(BIN)/python -m paper run
	$(BIN)/python -m paper tables
	$(BIN)/python -m paper page

constraints:
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	printf 'torch==2.13.0\n' > $(VENV)/torch.txt
	$(BIN)/pip install --quiet --constraint $(VENV)/torch.txt --editable '.[all,dev,docs]'
	{ echo '# The versions that "make demo" and "make test" install. Rewritten by "make constraints".'; \
	  $(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//'; } > constraints.txt
	touch $(READY)

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev,docs]'
	touch $(READY)
