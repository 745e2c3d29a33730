"""An Airflow home for the tests, removed at their end and set before anything imports airflow."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
DAGS = Path(__file__).parent / "dags"
EXAMPLES = ROOT / "example_dags"


def prepare() -> Path:
    """Create the home once in a process, and set the environment variable that names it."""
    if "RMQ_TESTS_AIRFLOW_HOME" not in os.environ:
        home = tempfile.mkdtemp(prefix="rmq-airflow-")
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        os.environ.update(_environment(home), RMQ_TESTS_AIRFLOW_HOME=home)
    return Path(os.environ["RMQ_TESTS_AIRFLOW_HOME"])


def stored(files: Iterable[Path]) -> bytes:
    """Return what the files contain, read by another process.

    A process that closes the file of its own SQLite database loses the locks on it, and others then damage it
    (https://sqlite.org/howtocorrupt.html, "Posix advisory locks canceled by a separate thread doing close()").
    """
    return subprocess.run(["cat", *filter(Path.is_file, files)], check=True, stdout=subprocess.PIPE).stdout


def _environment(home: str) -> dict[str, str]:
    # dag.test() runs only what belongs to a configured bundle.
    bundles = [_bundle("tests", DAGS), _bundle("examples", EXAMPLES)]
    return {
        "AIRFLOW_HOME": home,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of the tests that is as long as Airflow wants it " * 2,
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
    }


def _bundle(name: str, path: Path) -> dict[str, object]:
    classpath = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return {"name": name, "classpath": classpath, "kwargs": {"path": str(path), "refresh_interval": 0}}
