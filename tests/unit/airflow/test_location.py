from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rmq_airflow.location import config_of, extra_of, settings_of
from rmq_core import ConfigurationError, LeasedConfig, RedisSettings


def connection(**fields: Any) -> Any:
    plain = dict.fromkeys(("host", "port", "schema", "login", "password"))
    return SimpleNamespace(**{"conn_id": "c", **plain, **fields})


def url(extra: dict[str, Any] | None = None, **fields: Any) -> str:
    return settings_of(connection(**fields), extra or {}).url_without_credentials


def test_an_empty_connection_is_the_local_server() -> None:
    assert url() == "redis://localhost:6379"


def test_host_port_and_database_make_the_location() -> None:
    assert url({"db": 3}, host="h", port=1234) == "redis://h:1234/3"
    assert url(host="h", schema="2") == "redis://h:6379/2"
    assert url({"db": 3}, host="h", schema="2") == "redis://h:6379/3"


def test_an_ipv6_host_is_put_into_brackets() -> None:
    assert url(host="::1") == "redis://[::1]:6379"


def test_a_connection_of_the_redis_provider_works_as_it_is() -> None:
    extra = {"db": 1, "ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False}
    settings = settings_of(connection(host="h", login="u", password="p"), extra)
    assert (settings.scheme, settings.db, settings.tls) == ("rediss", 1, True)
    assert (settings.ssl_cert_reqs, settings.ssl_check_hostname) == ("none", False)
    assert (settings.username, settings.password) == ("u", "p")


@pytest.mark.parametrize("place", ["url", "host"])
@pytest.mark.parametrize("location", ["embedded:///tmp/x", "unix:///tmp/redis.sock", "sentinel://a:1,b:2/main"])
def test_a_url_may_stand_in_the_extra_or_in_the_host(place: str, location: str) -> None:
    made = url({"url": location}) if place == "url" else url(host=location)
    assert made == RedisSettings.from_url(location).url_without_credentials


def test_tls_and_credentials_of_sentinels_come_from_the_extras() -> None:
    extra = {"url": "sentinel://a,b/main", "ssl": "true", "sentinel_password": "s"}
    settings = settings_of(connection(password="p"), extra)
    assert settings.tls
    assert (settings.password, settings.sentinel_password) == ("p", "s")


@pytest.mark.parametrize(
    "location",
    [
        "redis://user:canary@h",
        "redis://h:1?password=canary",
        "redis://h/0?db=1&p%61ssword=canary",
        "redis://h?username=canary",
        "rediss://h?ssl_password=canary",
        "sentinel://a,b/main?sentinel_password=canary",
    ],
)
@pytest.mark.parametrize("place", ["url", "host"])
def test_credentials_in_a_url_are_refused_because_airflow_would_show_them(place: str, location: str) -> None:
    with pytest.raises(ConfigurationError, match="which Airflow masks") as raised:
        url({"url": location}) if place == "url" else url(host=location)
    assert "canary" not in str(raised.value)


def test_the_password_of_a_tls_key_comes_from_the_extras() -> None:
    extra = {"url": "rediss://h?db=2", "ssl_certfile": "c", "ssl_keyfile": "k", "ssl_password": "s"}
    assert settings_of(connection(), extra).ssl_password == "s"


def test_empty_fields_of_the_form_count_as_not_given() -> None:
    assert (
        url({"url": "", "db": "", "ssl": None, "ssl_ca_certs": "", "ssl_cert_reqs": None}, host="h") == "redis://h:6379"
    )


@pytest.mark.parametrize("extra", ["{", "[]", "7"])
def test_extras_that_are_no_object_are_refused(extra: str) -> None:
    with pytest.raises(ConfigurationError, match="JSON object"):
        extra_of(connection(extra=extra))


def test_extras_are_read_from_json_and_may_be_missing() -> None:
    assert extra_of(connection(extra='{"db": 1}')) == {"db": 1}
    assert extra_of(connection(extra=None)) == {}


def test_the_defaults_of_a_queue_come_from_the_connection() -> None:
    assert config_of({"lease": "90", "max_deliveries": 3}) == LeasedConfig(lease=90, max_deliveries=3)
    assert config_of({}) == config_of({"lease": None, "max_deliveries": ""}) == LeasedConfig()


@pytest.mark.parametrize("name", ["lease", "max_deliveries"])
def test_a_default_that_is_no_number_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        config_of({name: "a few"})
