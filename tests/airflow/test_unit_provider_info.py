from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest

from rmq_airflow.get_provider_info import get_provider_info
from rmq_airflow.location import OPTIONS

AIRFLOW = Path(airflow.__file__).parent
ROOT = Path(__file__).parents[2]
MODULES = [
    module
    for kind in ("hooks", "operators", "sensors", "triggers")
    for group in get_provider_info()[kind]
    for module in group["python-modules"]
]


def schema(name: str) -> Any:
    return json.loads((AIRFLOW / f"{name}.schema.json").read_text("utf-8"))


def connection_type() -> dict[str, Any]:
    (only,) = get_provider_info()["connection-types"]
    return dict(only)


def test_the_metadata_is_valid_for_airflow() -> None:
    jsonschema.validate(get_provider_info(), schema("provider_info"))


def test_the_integration_is_what_a_provider_of_airflow_itself_declares() -> None:
    # The schema of installed providers lets all of it be missing.
    (integration,) = get_provider_info()["integrations"]
    jsonschema.validate([integration], schema("provider.yaml")["properties"]["integrations"])
    assert (ROOT / f"docs{integration['logo']}").is_file()
    assert integration["logo"].startswith("/integration-logos/")


def test_the_connection_form_is_valid_for_airflow() -> None:
    # The schema of installed providers does not describe the form; the one of a provider's source does.
    source = schema("provider.yaml")["properties"]["connection-types"]
    jsonschema.validate([connection_type()], source)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_in_the_metadata_exists_and_defines_what_its_entry_names(module: str) -> None:
    names = [name for name in vars(importlib.import_module(module)) if name.startswith(("RedisQueue", "Leased"))]
    assert names


def test_every_option_the_hook_reads_has_a_field_in_the_form() -> None:
    others = {"url", "ssl", "discipline", "lease", "max_deliveries", "traced"}
    assert set(connection_type()["conn-fields"]) == {*OPTIONS, *others}


def test_fields_with_secrets_are_masked_in_the_form() -> None:
    fields = connection_type()["conn-fields"]
    secret = {name for name in fields if re.search("password", name)}
    assert secret
    assert all(fields[name]["schema"]["format"] == "password" for name in secret)
