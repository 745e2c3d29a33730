"""Features that need Airflow 3.3 raise an error that says so on older versions."""

from __future__ import annotations

import importlib

import pytest
from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

from rmq_airflow.assets.queue import FORMS, convert_asset_to_openlineage
from tests.airflow.floor import ABSENT_TESTS, BELOW_33


def test_the_bridge_names_the_airflow_it_needs_and_an_alternative() -> None:
    if BELOW_33:
        with pytest.raises(AirflowOptionalProviderFeatureException, match=r"Airflow 3\.3.*RedisQueueDoorbellTrigger"):
            importlib.import_module("rmq_airflow.triggers.shared_stream")
    else:
        assert importlib.import_module("rmq_airflow.triggers.shared_stream").RedisQueueSharedStreamTrigger


def test_no_test_is_skipped_where_airflow_has_every_feature() -> None:
    assert bool(ABSENT_TESTS) == BELOW_33


@pytest.mark.parametrize("form", FORMS)
def test_a_queue_becomes_a_dataset_of_openlineage_or_nothing_without_its_client(form: str) -> None:
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.sdk import Asset

    dataset = convert_asset_to_openlineage(Asset(uri=FORMS[form].example), None)
    if BELOW_33:  # `make floor` has the client
        assert isinstance(dataset, Dataset)
        assert dataset.name == "queue"
        assert FORMS[form].example == f"{dataset.namespace}/{dataset.name}"
    else:
        assert dataset is None or isinstance(dataset, Dataset)
