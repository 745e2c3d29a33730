from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_airflow.location import read
from rmq_core import ConfigurationError, LeasedConfig, RedisSettings


def connection(extra: dict[str, Any] | str | None = None, **fields: Any) -> Any:
    plain = {**dict.fromkeys(("port", "schema", "login", "password")), "host": None if "url" in (extra or {}) else "h"}
    written = json.dumps(extra) if isinstance(extra, dict) else extra
    return SimpleNamespace(**{"conn_id": "c", "conn_type": "redis_queue", **plain, **fields}, extra=written)


def settings_of(extra: dict[str, Any] | None = None, **fields: Any) -> RedisSettings:
    return read(connection(extra, **fields)).settings


def config_of(extra: dict[str, Any]) -> LeasedConfig:
    return read(connection(extra)).config


def url(extra: dict[str, Any] | None = None, **fields: Any) -> str:
    return settings_of(extra, **fields).url_without_credentials


@pytest.mark.parametrize("conn_type", ["redis_queue", "redis", ""])
@pytest.mark.parametrize("host", [None, ""])
def test_a_connection_without_a_host_is_refused_with_the_form_that_works(conn_type: str, host: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"host is missing.*redis-queue://"):
        url({"db": 3}, conn_type=conn_type, host=host, port=7701)


def test_a_connection_of_the_redis_provider_works_unchanged() -> None:
    extra = {"db": 1, "ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False}
    settings = settings_of(extra, conn_type="redis", host="h", login="u", password="p")
    assert (settings.scheme, settings.db, settings.tls) == ("rediss", 1, True)
    assert (settings.ssl_cert_reqs, settings.ssl_check_hostname) == ("none", False)
    assert (settings.username, settings.password) == ("u", "p")


@pytest.mark.parametrize("place", ["url", "host"])
@pytest.mark.parametrize("location", ["embedded:///tmp/x", "unix:///tmp/redis.sock", "sentinel://a:1,b:2/main"])
def test_a_url_may_be_in_the_extra_or_in_the_host(place: str, location: str) -> None:
    made = url({"url": location}) if place == "url" else url(host=location)
    assert made == RedisSettings.from_url(location).url_without_credentials


def test_tls_and_credentials_of_sentinels_come_from_the_extras() -> None:
    extra = {"url": "sentinel://a,b/main", "ssl": "true", "sentinel_password": "s"}
    settings = settings_of(extra, password="p")
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


@pytest.mark.parametrize("extra", ["{", "[]", "7"])
def test_extras_that_are_no_object_are_refused(extra: str) -> None:
    with pytest.raises(ConfigurationError, match="JSON object"):
        read(connection(extra))


@pytest.mark.parametrize("name", ["lease", "max_deliveries"])
def test_a_default_that_is_no_number_raises_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        config_of({name: "a few"})


REDIS_PROVIDERS_FORM = {
    "db": 0,
    "cluster": False,
    "startup_nodes": None,
    "ssl": False,
    "ssl_cert_reqs": "required",
    "ssl_ca_certs": None,
    "ssl_keyfile": None,
    "ssl_certfile": None,
    "ssl_check_hostname": False,
}


def test_a_redis_connection_to_a_cluster_is_recognized_as_a_cluster() -> None:
    extra = {**REDIS_PROVIDERS_FORM, "cluster": True, "startup_nodes": "two:7001, three"}
    made = settings_of(extra, conn_type="redis", host="one", port=7000)
    assert (made.scheme, made.hosts) == ("redis+cluster", (("one", 7000), ("two", 7001), ("three", 6379)))


def test_a_misspelled_rmq_extra_is_refused_in_a_redis_connection_too() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown extra `leese`, did you mean `lease`\?"):
        url({"leese": 60}, conn_type="redis")


CONTRADICTIONS = [
    ({"url": "redis://a"}, {"host": "b"}, "extra `url`.*the host: clear one"),
    ({"url": "redis://a"}, {"port": 6380}, "extra `url`.*the port: clear one"),
    ({}, {"host": "redis://a", "port": 6380}, "URL in the field for the host.*the port: clear one"),
    ({"url": "redis://a/2", "db": 3}, {}, "`db` says 3 and the URL says 2"),
    ({"url": "sentinel://a,b/main/2", "db": 3}, {}, "`db` says 3 and the URL says 2"),
    ({"url": "redis://a", "cluster": True}, {}, "redis\\+cluster://"),
    ({"cluster": True, "db": 3}, {}, "db: a cluster has only database 0"),
    ({"ssl_ca_certs": "/ca.pem"}, {}, "`ssl_ca_certs` needs TLS: set extra `ssl`"),
    ({"url": "unix:///s", "ssl": True}, {}, "tls"),
    ({"sentinel_password": "s"}, {}, "sentinel_password"),
    ({"discipline": "streams", "lease": 60}, {}, "`lease` is for the discipline leased, and .* says streams"),
    ({"discipline": "jobs", "max_deliveries": 3}, {}, "`max_deliveries` is for the discipline leased"),
]


@pytest.mark.parametrize(("extra", "fields", "said"), CONTRADICTIONS)
def test_contradicting_values_are_refused_naming_both(extra: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read(connection(extra, **fields))
