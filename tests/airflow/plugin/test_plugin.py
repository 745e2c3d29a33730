"""How Airflow loads the plugin, and what the plugin costs Airflow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import rmq_airflow.plugin
import rmq_console
from rmq_airflow.paths import base_path
from tests.airflow.plugin.conftest import Asking

ROOT = Path(__file__).parents[3]
STATIC = Path(rmq_console.__file__).with_name("static")


def test_airflow_loads_the_plugin_without_an_error() -> None:
    from airflow import plugins_manager

    (info,) = (info for info in plugins_manager.get_plugin_info() if info["name"] == "rmq")
    assert [view["name"] for view in info["external_views"]] == ["Queues"]
    assert [app["url_prefix"] for app in info["fastapi_apps"]] == ["/rmq"]
    assert plugins_manager.get_import_errors() == {}


def test_the_plugin_is_registered_once_by_every_way_of_discovery() -> None:
    (point,) = entry_points(group="airflow.plugins", name="rmq")
    assert point.load() is rmq_airflow.plugin.RmqPlugin
    code = "from airflow import plugins_manager as p; p.get_plugin_info(); print('errors:', p.get_import_errors())"
    eager = os.environ | {"AIRFLOW__CORE__LAZY_DISCOVER_PROVIDERS": "False"}
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=eager)
    assert "errors: {}" in result.stdout


def test_processes_that_serve_no_page_load_none_of_it_and_loading_the_fastapi_apps_starts_no_thread() -> None:
    code = """
import airflow.providers.common.compat.sdk as sdk, airflow.plugins_manager as p, sys, threading
sdk.AirflowPlugin, sdk.conf
before = set(sys.modules)
import rmq_airflow.plugin
print("loaded:", *sorted(set(sys.modules) - before))
before = threading.active_count()
p.get_timetables_plugins(); p.get_global_operator_extra_links()
late = "rmq_airflow.plugin.lazy" in sys.modules
names = [app["name"] for app in p.get_fastapi_plugins()[0]]
print("result:", late, "rmq_airflow.plugin.app" in sys.modules, names, threading.active_count() - before)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    (loaded,) = re.findall("^loaded: (.*)$", result.stdout, re.MULTILINE)
    ours = {name for name in loaded.split() if name.split(".")[0] not in sys.stdlib_module_names}
    assert "rmq_airflow.plugin" in ours <= {"rmq_airflow", "rmq_airflow.paths", "rmq_airflow.plugin"}
    assert "result: False False ['RMQ'] 0" in result.stdout, result.stdout + result.stderr


def test_the_view_uses_the_path_of_airflows_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host/team/airflow/")
    assert base_path() == "/team/airflow"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://localhost:8080")
    assert base_path() == ""


def test_every_file_that_a_script_imports_exists() -> None:
    for script in STATIC.glob("*.js"):
        for name in re.findall(r'from "\./([\w.]+)"', script.read_text("utf-8")):
            assert (STATIC / name).exists(), f"{script.name} imports {name}"


async def test_only_airflow_may_frame_the_page_and_no_foreign_script_runs(asking: Asking) -> None:
    policy = (await asking("VIEWER").get("/")).headers["content-security-policy"]
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'self'"} <= set(policy.split("; "))


def test_the_task_that_an_empty_page_suggests_is_valid_code() -> None:
    from rmq_airflow.operators.publish import RedisQueuePublishOperator
    from rmq_airflow.plugin.app import WORDS

    task = eval(WORDS.publish[1], {"RedisQueuePublishOperator": RedisQueuePublishOperator})
    assert task.task_id == "publish"
