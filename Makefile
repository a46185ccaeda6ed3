# SPDX-License-Identifier: Apache-2.0
# Every command of the README. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
STAMP := $(VENV)/.installed

.PHONY: help setup demo test test-cpp lint format constraints clean
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 22

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt scikit-build-core cmake ninja
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[pipeline,bench,nsight,dev]'
	touch $@

setup: $(STAMP)  ## make the virtual environment, build the library

demo: setup  ## train an agent, evaluate it, write results/report/index.html
	$(BIN)/snakemake --profile profiles/local

test: setup  ## the whole test suite
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: setup  ## every check that pre-commit runs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'cuda/*.h' 'cuda/*.cpp' 'cuda/*.cu' 'cuda/*.cuh')
	$(BIN)/codespell

format: setup  ## rewrite sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files 'cuda/*.h' 'cuda/*.cpp' 'cuda/*.cu' 'cuda/*.cuh')

clean:  ## remove what a rule can make again (not results/)
	rm -rf build seed_hpc/_lib .snakemake
