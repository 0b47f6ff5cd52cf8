# Two commands show the project: `make demo` trains a model inside memory limits, `make test` checks everything.
# PYTHON chooses the interpreter (3.11 or newer) that the virtual environment is made with.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: demo test lint experiments clean

demo: $(INSTALLED)
	$(BIN)/rematopt demo --out out

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Takes long, on a machine that does nothing else: the comparison with other methods, and the README's figure and table of it.
experiments: $(INSTALLED)
	$(BIN)/python -m experiments.pareto -o out/experiments
	$(BIN)/python -m experiments.publish out/experiments

clean:
	rm -rf .venv build dist out

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
