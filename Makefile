# Everything a fresh machine needs beyond Python and make is installed here: into .venv, and for `make test` by apt.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
PACKAGES := rmq_core rmq_airflow rmq_dagster rmq_spark pyspark_rmq
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help demo test lint format bench faults docs clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

# A changed pyproject.toml or constraints.txt changes the stamp's name, and the environment is brought up to date.
$(STAMP): | $(BIN)/uv
	uv pip install --quiet --python $(BIN)/python --constraints constraints.txt --editable '.[all,dev]'
	rm -f $(VENV)/.stamp-*
	touch $@

$(BIN)/uv:
	$(PYTHON) tools/make_venv.py $(VENV)

demo: $(STAMP) ## the main job on real flights, through Airflow and through Dagster; CRASH=1 kills the Spark driver
	python -m example_dags.demo $(if $(CRASH),--crash)

test: $(STAMP) ## lint, then every test, faults in their short form
	$(MAKE) --no-print-directory lint
	python -m tests.servers
	pytest

lint: $(STAMP) ## ruff, mypy --strict and the import contracts
	ruff check .
	ruff format --check .
	mypy --strict $(foreach package,$(PACKAGES),--package $(package))
	lint-imports

format: $(STAMP) ## let ruff rewrite what it can
	ruff check --fix .
	ruff format .

bench: $(STAMP) ## measure every ratio and write benchmarks/RESULTS.md
	python -m tests.servers 7.0 8.6
	python -m benchmarks

faults: $(STAMP) ## kills, cut wires and restarts, in full length
	python -m tests.servers
	pytest tests/faults --faults=full

docs: $(STAMP) ## run the code of the README and the docs
	pytest tests/architecture -k documentation

clean: ## remove the environment and everything generated
	rm -rf $(VENV) build dist demo-output .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
