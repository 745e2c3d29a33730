from __future__ import annotations

import pickle
from typing import Any

import pytest
from redis import exceptions as redis_errors

from rmq_core import errors
from rmq_core.errors import translate, translated


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (redis_errors.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), errors.QueueFull),
        (redis_errors.ResponseError("OOM command not allowed when used memory"), errors.QueueFull),
        (redis_errors.ResponseError("Error running script: @user_script: OOM command not allowed"), errors.QueueFull),
        (redis_errors.AuthenticationError("WRONGPASS"), errors.ConfigurationError),
        (redis_errors.AuthorizationError("x"), errors.ConfigurationError),
        (redis_errors.ConnectionError("refused"), errors.QueueUnavailable),
        (redis_errors.TimeoutError("timed out"), errors.QueueUnavailable),
        (redis_errors.ReadOnlyError("x"), errors.QueueUnavailable),
        (redis_errors.RedisClusterException("no node"), errors.QueueUnavailable),
        (redis_errors.ClusterError("TTL exhausted"), errors.QueueUnavailable),
        (redis_errors.ClusterDownError("CLUSTERDOWN"), errors.QueueUnavailable),
        (redis_errors.MasterDownError("MASTERDOWN"), errors.QueueUnavailable),
        (redis_errors.TryAgainError("TRYAGAIN"), errors.QueueUnavailable),
        (redis_errors.MovedError("1 h:1"), errors.QueueUnavailable),
        (redis_errors.AskError("1 h:1"), errors.QueueUnavailable),
        (ConnectionResetError("reset"), errors.QueueUnavailable),
        (redis_errors.ResponseError("WRONGTYPE Operation against a key"), errors.WrongKeyType),
        (redis_errors.ResponseError("ERR unknown command"), errors.ScriptFailed),
        (redis_errors.NoPermissionError("NOPERM no key"), errors.ScriptFailed),
    ],
)
def test_errors_of_redis_py_become_errors_of_rmq_with_the_original_as_their_cause(raised: Any, expected: type) -> None:
    told = translate(raised)
    assert type(told) is expected
    assert told.__cause__ is raised
    with pytest.raises(expected) as caught, translated():
        raise raised
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer", "ssl_ca_certs"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch, certificate is not valid for",
         "ssl_check_hostname"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: IP address mismatch, certificate is not valid",
         "ssl_check_hostname"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired", "clock"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required", "ssl_certfile"),
        ("[SSL: SSLV3_ALERT_HANDSHAKE_FAILURE] sslv3 alert handshake failure", "ssl_certfile"),
        ("[X509: KEY_VALUES_MISMATCH] key values mismatch", "ssl_keyfile"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "redis://"),
    ],
)  # fmt: skip
def test_a_refused_certificate_is_an_error_of_the_configuration_that_names_the_option(text: str, named: str) -> None:
    error = redis_errors.ConnectionError(f"Error 1 connecting to h:1. {text} (_ssl.c:1006).")
    told = translate(error)
    assert isinstance(told, errors.ConfigurationError)
    assert named in str(told)
    assert text.partition("] ")[2].strip(" .") in str(told)
    assert errors.hopeless(error)


@pytest.mark.parametrize(
    "text",
    ["[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol (_ssl.c:1006)", "Connection refused",
     "[SSL: TLSV1_ALERT_INTERNAL_ERROR] tlsv1 alert internal error (_ssl.c:2580)"],
)  # fmt: skip
def test_a_connection_that_breaks_over_tls_may_come_back(text: str) -> None:
    error = redis_errors.ConnectionError(text)
    assert isinstance(translate(error), errors.QueueUnavailable)
    assert not errors.hopeless(error)


@pytest.mark.parametrize(
    "error",
    [redis_errors.ReadOnlyError("You can't write against a read only replica."),
     redis_errors.ConnectionError("ERR Error running script (call to f): @user_script: -READONLY You can't write"),
     redis_errors.ConnectionError("The previous master is now a slave")],
)  # fmt: skip
def test_a_replica_that_refuses_writes_is_named_as_one(error: Exception) -> None:
    assert str(translate(error)).startswith("this server is a replica and refuses writes")
    assert not errors.hopeless(error)


def test_errors_can_cross_a_process_boundary() -> None:
    for error in (
        errors.LeaseLost("job", "why"),
        errors.LeaseOwnedByOther("job", "it is owned by 'x'"),
        errors.LeaseAlreadySettled("job", 7),
        errors.QueueFull("full"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_lease_lost_error_names_the_lease_and_states_that_nothing_changed() -> None:
    error = errors.LeaseLost("job")
    assert (error.lease_id, str(error)) == (
        "job", "lease 'job' is lost: it expired, was taken over or is settled; nothing was changed",
    )  # fmt: skip


def test_only_publish_many_attaches_a_report() -> None:
    assert errors.QueueFull("x").report is None
