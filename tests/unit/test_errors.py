from __future__ import annotations

import pickle
from typing import Any

import pytest
from redis import exceptions as redis_errors

import rmq_core
from rmq_core import errors
from rmq_core.errors import translate, translated

LEAVES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


def test_every_error_has_the_common_base_class_and_its_own_message() -> None:
    assert all(issubclass(kind, errors.RedisMessageQueueError) for kind in LEAVES)
    assert all(kind.__doc__ for kind in LEAVES)
    assert len({kind.__doc__ for kind in LEAVES}) == len(LEAVES)


def test_every_error_is_public() -> None:
    assert all(getattr(rmq_core, kind.__name__) is kind for kind in LEAVES)


def test_wrong_values_are_value_errors_too() -> None:
    assert issubclass(errors.ConfigurationError, ValueError)
    assert issubclass(errors.PayloadError, ValueError)


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
