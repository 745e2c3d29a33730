"""The contract tests of submitters need the providers of Databricks, Amazon, Google, Kubernetes and Livy.

`make submitters` installs them into a separate environment; the tree's environment has none of them.
"""

from __future__ import annotations

from importlib.util import find_spec

from tests.airflow.conftest import *  # noqa: F403  the fixtures: one Airflow, one Redis, a connection with a canary

collect_ignore_glob = [] if find_spec("airflow.providers.databricks") else ["test_*.py"]
