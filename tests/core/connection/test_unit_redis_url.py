from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_core.connection.settings import RedisSettings
from rmq_core.errors import ConfigurationError

SECRET = "canary"


def settings(url: str, **options: Any) -> RedisSettings:
    return RedisSettings.from_url(url, **options)


def refusal(url: str, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        settings(url, **options)
    return str(caught.value)


def test_missing_parts_of_a_url_have_the_usual_defaults() -> None:
    made = settings("redis://")
    assert (made.hosts, made.db, made.username, made.password) == ((("localhost", 6379),), 0, None, None)


def test_credentials_are_percent_decoded() -> None:
    made = settings("redis://work%40er:p%40s%2Fs%3A%25@h")
    assert (made.username, made.password) == ("work@er", "p@s/s:%")


def test_a_password_without_a_user_belongs_to_the_default_user() -> None:
    made = settings("redis://:pass@h")
    assert (made.username, made.password) == (None, "pass")


def test_an_at_sign_in_a_password_need_not_be_encoded() -> None:
    assert settings("redis://:p@ss@h:1").password == "p@ss"


def test_keywords_win_over_the_url() -> None:
    made = settings("redis://a:b@h/1?socket_timeout=3", username="c", password="d", db=2, socket_timeout=4.5)
    assert (made.username, made.password, made.db, made.socket_timeout) == ("c", "d", 2, 4.5)


def test_ipv6_addresses_are_written_in_brackets() -> None:
    assert settings("redis://[::1]:6380").hosts == (("::1", 6380),)
    assert settings("redis+cluster://[::1],[fe80::2]:7").hosts == (("::1", 6379), ("fe80::2", 7))


def test_rediss_means_tls_with_verification() -> None:
    made = settings("rediss://h?ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem&ssl_keyfile=/k.pem&ssl_check_hostname=no")
    assert (made.tls, made.ssl_ca_certs, made.ssl_certfile, made.ssl_keyfile) == (True, "/ca.pem", "/c.pem", "/k.pem")
    assert (made.ssl_cert_reqs, made.ssl_check_hostname) == ("required", False)


def test_a_unix_socket_is_a_path_and_its_database_an_option() -> None:
    made = settings("unix://user:pass@/run/my%20redis.sock?db=4")
    assert (made.path, made.db, made.username, made.password) == ("/run/my redis.sock", 4, "user", "pass")


def test_a_cluster_has_several_nodes_and_may_use_tls() -> None:
    made = settings("redis+cluster://one,two:7001/?tls=true")
    assert (made.hosts, made.tls) == ((("one", 6379), ("two", 7001)), True)


def test_an_embedded_directory_becomes_absolute_where_the_url_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert settings("embedded:///var/lib/my%20queue").path == "/var/lib/my queue"
    assert settings("embedded://./queue").path == str(tmp_path / "queue")
    assert settings("embedded://queue/deep").path == str(tmp_path / "queue" / "deep")
    assert settings("embedded://~/queue").path == "/home/somebody/queue"


@pytest.mark.parametrize("url", ["", "h:6379", "http://h", "valkey://h"])
def test_an_unknown_scheme_is_refused_with_the_known_ones(url: str) -> None:
    message = refusal(url)
    for form in ("redis://", "rediss://", "unix://", "sentinel://", "redis+cluster://", "embedded://"):
        assert form in message


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", "6379x", "٣"])
def test_a_bad_port_is_refused(port: str) -> None:
    assert "port must be a number from 1 to 65535" in refusal(f"redis://h:{port}")


@pytest.mark.parametrize("db", ["-1", "x", "1.5", "1/2"])
def test_a_bad_database_is_refused(db: str) -> None:
    assert refusal(f"redis://h/{db}").startswith("db: ")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h/1?db=1", "db: it is both"),
        ("redis://one,two", "sentinel:// or redis+cluster://"),
        ("redis://h?db=true1", "db: "),
        ("redis://h#1", "'#'"),
        ("redis://h?socket_timeout=0", "socket_timeout: seconds"),
        ("redis://h?socket_timeout=nan", "socket_timeout: seconds"),
        ("redis://h?socket_timeout=soon", "socket_timeout: seconds"),
        ("redis://h?max_connections=0", "max_connections: "),
        ("redis://h?client_name=", "client_name: "),
        ("redis://h?protocol=4", "protocol: write one of 2, 3"),
        ("redis://h?decode_responses=true", "unknown option 'decode_responses'"),
        ("redis://h?db=1&db=2", "option db is given twice"),
        ("redis://h?tls=true", "write rediss://"),
        ("redis://h?ssl_ca_certs=/x", "need TLS"),
        ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs: write one of required, optional, none"),
        ("rediss://h?ssl_check_hostname=maybe", "ssl_check_hostname: write true or false"),
        ("redis://h?sentinel_password=x", "need a sentinel:// URL"),
        ("unix://run/redis.sock", "three slashes"),
        ("unix://", "three slashes"),
        ("sentinel://h:1", "service name is missing"),
        ("sentinel://h:1//2", "service name is missing"),
        ("sentinel:///service", "a host is missing"),
        ("sentinel://h:1,,g:2/service", "a host is missing"),
        ("redis+cluster://", "a host is missing"),
        ("redis+cluster://h/1", "db: a cluster has only database 0"),
        ("embedded://", "directory is missing"),
        ("embedded:///", "directory is missing"),
        ("embedded:///d?password=x", "embedded server has none"),
        ("embedded://~nobody-of-this-name/d", "without '~'"),
    ],
)
def test_an_invalid_value_raises_an_error_that_names_it(url: str, expected: str) -> None:
    assert expected in refusal(url)


def test_an_unknown_keyword_is_refused_with_the_known_ones() -> None:
    assert "socket_timeout" in refusal("redis://h", timeout=3)


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}/{SECRET}@h",
        f"redis://:12/{SECRET}@h",
        f"redis://:{SECRET}?{SECRET}@h",
        f"redis://:{SECRET}#{SECRET}@h",
        f"redis://u:{SECRET}:{SECRET}@h:port",
        f"redis://:{SECRET}",
        f"redis://u:{SECRET}@",
        f"redis://u:{SECRET}@[h:1",
        f"unix://:{SECRET}/{SECRET}@/run/redis.sock",
        f"sentinel://u:{SECRET}@h:x/service",
        f"sentinel://u:{SECRET}@h:1",
        f"redis+cluster://u:{SECRET}@h:1/1",
        f"http://u:{SECRET}@h",
        f"u:{SECRET}@h",
        f"embedded:///d?password={SECRET}",
        f"redis://h?password={SECRET}&password={SECRET}",
        f"redis://h?ssl_password={SECRET}",
        f"redis://u:{SECRET}@h?socket_timeout={SECRET}",
    ],
)
def test_no_refusal_repeats_a_password(url: str) -> None:
    assert SECRET not in refusal(url)
