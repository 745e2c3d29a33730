"""The accepted extras of a connection, and the errors for all others."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_airflow import location
from rmq_airflow.get_provider_info import get_provider_info
from rmq_core import ConfigurationError

WRONG = [
    ({"discipline": "leasd"}, r"`discipline` must be one of leased, .*, not 'leasd', did you mean `leased`\?"),
    ({"discipline": "kafka"}, r"`discipline` must be one of leased, reliable, .*, not 'kafka'$"),
    ({"discipline": ["leased"]}, "`discipline` must be one of"),
    ({"lease": "5 min"}, "`lease` must be a number of seconds such as 300, more than 0, not '5 min'"),
    ({"lease": True}, "`lease` must be a number"),
    ({"lease": 0}, "`lease` must be a number"),
    ({"lease": -1}, "`lease` must be a number"),
    ({"lease": "nan"}, "`lease` must be a number"),
    ({"lease": "inf"}, "`lease` must be a number"),
    ({"lease": [300]}, "`lease` must be a number"),
    ({"max_deliveries": 2.5}, "`max_deliveries` must be a whole number from 1 on, not 2.5"),
    ({"max_deliveries": 0}, "`max_deliveries` must be a whole number from 1 on"),
    ({"max_deliveries": "many"}, "`max_deliveries` must be a whole number from 1 on"),
    ({"db": -1}, "`db` must be a whole number from 0 on"),
    ({"db": "one"}, "`db` must be a whole number from 0 on"),
    ({"ssl": "ja"}, "`ssl` must be true or false, not 'ja'"),
    ({"ssl_check_hostname": 7}, "`ssl_check_hostname` must be true or false"),
    ({"ssl_cert_reqs": "require"}, "`ssl_cert_reqs` must be one of required, .* did you mean `required`"),
    ({"ssl_ca_certs": True}, "`ssl_ca_certs` must be a text, not bool"),
    ({"url": {"host": "h"}}, "`url` must be a text, not dict"),
    ({"Lease": 300}, r"unknown extra `Lease`, did you mean `lease`\?"),
    ({"max_delivery": 3}, r"unknown extra `max_delivery`, did you mean `max_deliveries`\?"),
    ({"sentinal_password": "s"}, "did you mean `sentinel_password`"),
    ({"wobble": "red"}, "unknown extra `wobble`. The extras are cluster, db, discipline, lease, "),
    ({"socket_timeout": 3}, "unknown extra `socket_timeout`.*such as socket_timeout go into the query of `url`"),
]


@pytest.mark.parametrize(("extra", "said"), WRONG, ids=[str(extra) for extra, _ in WRONG])
def test_an_invalid_extra_raises_an_error_that_names_it_and_the_accepted_values(
    extra: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        location.read_extras(extra)


@pytest.mark.parametrize("name", ["sentinel_password", "ssl_password"])
def test_a_secret_of_the_wrong_type_is_not_repeated(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as raised:
        location.read_extras({name: 240817})
    assert "240817" not in str(raised.value)


def test_the_form_offers_no_value_that_the_extras_refuse() -> None:
    (form,) = get_provider_info()["connection-types"]
    for name, described in form["conn-fields"].items():
        for value in described["schema"].get("enum", ()):
            assert location.read_extras({name: value}) == {name: value}
        if "default" in described["schema"]:
            assert location.read_extras({name: described["schema"]["default"]})
