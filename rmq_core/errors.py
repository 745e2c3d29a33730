"""The errors of RMQ: one root, and one subclass for each way in which a caller can react.

`translate` is the only place where redis-py's exceptions become RMQ's. Messages never hold credentials or payloads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

FULL_POOL = ("Too many connections", "No connection available.")
"""What redis-py says when a connection pool is full; only some of its versions and pools raise MaxConnectionsError."""


class RedisMessageQueueError(Exception):
    """Root of every error that RMQ raises. `report` is what `publish_many` accepted before it failed, or None.

    RedisMessageQueue sets `queue`, `message_id` and `operation` on its errors; each is None when it is unknown.
    """

    report: object = None
    queue: str | None = None
    message_id: str | None = None
    operation: str | None = None
    _made_of: ClassVar[tuple[str, ...]] = ()
    """The arguments of an `__init__` that makes the text; attributes have these names. Pickling uses it."""

    def __reduce__(self) -> Any:
        return (type(self), tuple(map(self.__getattribute__, self._made_of))) if self._made_of else super().__reduce__()


class ConfigurationError(RedisMessageQueueError, ValueError):
    """A parameter has an invalid value; the message names the parameter and says which values are valid."""


class Unsupported(RedisMessageQueueError):
    """The discipline lacks a capability that the caller requested; the message names the disciplines that have it."""

    _made_of = ("discipline", "what", "able")

    def __init__(self, discipline: str, what: str, able: tuple[str, ...] = ()) -> None:
        instead = f"; use {' or '.join(able)}" if able else ""
        super().__init__(f"the discipline {discipline!r} has no {what}{instead}")
        self.discipline, self.what, self.able = discipline, what, able


class PayloadError(RedisMessageQueueError, ValueError):
    """A payload, header or deduplication key cannot be stored; the message has the path to the invalid part.

    index: the position of the payload among many, else None.
    """

    index: int | None = None

    def name_index(self, index: int) -> None:
        """Set the position of the payload among many, and add it to the message."""
        self.index, self.args = index, (f"payloads[{index}]: {self}",)


class PayloadTooLarge(PayloadError):
    """A payload has more bytes than `max_payload_bytes`; store it elsewhere and publish a reference."""


class PayloadTooDeep(PayloadError):
    """A JSON payload nests deeper than `max_payload_depth`; flatten it or raise the limit."""


class QueueFull(RedisMessageQueueError):
    """The queue, or the server's memory, has no room; nothing of the refused chunk was stored."""


class QueueBackpressureError(QueueFull):
    """`max_pending_length` messages wait already: consume some, raise the limit, or choose another overload policy."""


class QueueDrainedError(RedisMessageQueueError):
    """This queue object was drained and cannot publish any more; another object on the same queue can."""


class CleanupFailedError(RedisMessageQueueError):
    """The handler succeeded but its message could not be acknowledged; it may be delivered again. See the cause."""


class GatewayContractError(RedisMessageQueueError, TypeError):
    """A gateway returned an invalid value; the message names the method and says what it must return."""


class QueueUnavailable(RedisMessageQueueError):
    """Redis did not answer within the retry budget; the call can be repeated safely once it is back."""


class PoolExhausted(QueueUnavailable):
    """All connections of the Redis client's pool are in use: raise its `max_connections`, or make fewer calls at once.

    detail: the limit, or redis-py's words.
    """

    _made_of = ("detail",)

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"all connections of the Redis client's pool are in use ({detail}): raise `max_connections` of the client"
            " or the URL, or make fewer calls at once"
        )
        self.detail = detail


class QueueNotEmpty(RedisMessageQueueError):
    """The queue is not empty, so it stays on the list of queues; nothing was changed. Consume or purge its contents."""


class NotDurable(RedisMessageQueueError):
    """The messages were published or acked, but fewer replicas or AOF files confirmed it than `durability` requires."""


class WrongKeyType(RedisMessageQueueError):
    """A key of this queue holds another type of value; nothing was written. Remove the key or rename the queue."""


class FormatMismatch(RedisMessageQueueError):
    """The queue is stored in a format that this version of RMQ does not understand; nothing was written.

    kept: the format of the queue. understood: the format of this version. needs: the first version of RMQ that
    understands `kept`; empty if the queue does not state it.
    """

    _made_of = ("kept", "understood", "needs")

    def __init__(self, kept: int, understood: int, needs: str = "") -> None:
        version = f"RMQ {needs} or later" if needs else "the version of RMQ that migrated it"
        super().__init__(
            f"the queue is stored in format {kept}, and this version of RMQ understands format {understood}: install"
            f" {version} here"
        )
        self.kept, self.understood, self.needs = kept, understood, needs


class ScriptFailed(RedisMessageQueueError):
    """Redis refused a command or script of RMQ; the message is the server's."""


class QueueError(RedisMessageQueueError):
    """A stream could not be read, written or acked, or an entry is no message. RMQ made one attempt."""


class MalformedMessage(RedisMessageQueueError):
    """A stored entry is not an RMQ envelope; something else writes to this queue's keys."""


class UnknownPayloadKind(MalformedMessage):
    """A later version of RMQ published this message with a kind of payload that this version cannot decode.

    The message stays as it is stored; nack or release it for a consumer of the later version. kind: its letter.
    """

    _made_of = ("kind",)

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"a stored message has the unknown payload kind {kind!r}: a later version of RMQ published it; install that"
            " version here, or nack or release the message for a consumer that has it (Message.raw has its bytes)"
        )
        self.kind = kind


class InvalidPayload(MalformedMessage):
    """A stored payload is not of the type that the codec of the queue requires; another program has published it.

    The message stays as it is stored. `process` and `run` make it a dead letter, with this error as its reason; who
    claims by hand nacks it, or reads `Message.raw`. message_id: its id. why: the part that does not fit.
    """

    _made_of = ("message_id", "why")

    def __init__(self, message_id: str, why: str) -> None:
        super().__init__(f"message {message_id!r}: {why}")
        self.message_id, self.why = message_id, why


class LeaseLost(RedisMessageQueueError):
    """The lease expired, was taken over or was settled: stop working on its messages, which are no longer yours."""

    _made_of = ("lease_id", "detail")

    def __init__(self, lease_id: str, detail: str = "it expired, was taken over or is settled") -> None:
        super().__init__(f"lease {lease_id!r} is lost: {detail}; nothing was changed")
        self.lease_id = lease_id
        self.detail = detail


class LeaseOwnedByOther(LeaseLost):
    """`if_owner` names an owner that does not hold the lease; the present owner keeps it."""


class ConsumerTaken(RedisMessageQueueError):
    """Another run uses this consumer's name: stop that run, or give this run another consumer name."""

    _made_of = ("consumer", "left")

    def __init__(self, consumer: str, left: float) -> None:
        instead = "stop that run, or use another name for this one"
        super().__init__(f"consumer {consumer!r} is used by another run for at least {left:.1f} s more; {instead}")
        self.consumer, self.left = consumer, left


class LeftUnsettled(RedisMessageQueueError):
    """A driver ended without an error, but did not settle all messages that it had adopted."""


class StageLost(RedisMessageQueueError):
    """A stage no longer has all of its messages: stage them again, and keep them for longer."""

    _made_of = ("stage_id",)

    def __init__(self, stage_id: str) -> None:
        super().__init__(f"stage {stage_id!r} is not whole: its messages were not published within `keep`")
        self.stage_id = stage_id


class LeaseAlreadySettled(RedisMessageQueueError):
    """Every message of this lease id was acked before: treat the work as done, or claim under another id."""

    _made_of = ("lease_id", "acked")

    def __init__(self, lease_id: str, acked: int) -> None:
        super().__init__(f"lease {lease_id!r} was settled: all its {acked} messages are acked; claim under a new id")
        self.lease_id = lease_id
        self.acked = acked


class UnrecoverableError(RedisMessageQueueError):
    """A handler of a Worker raises it when its job can never succeed: no retry, the job is a dead letter at once.

    In the history of the dead letter, the reason begins with `UnrecoverableError` and names the subclass raised.
    """


class QueueChanged(RedisMessageQueueError):
    """Messages of the queue moved during its export, so some may be missing or doubled; nothing was removed."""


class ExportDamaged(RedisMessageQueueError):
    """The file is not an export of RMQ, or was truncated or altered; the text states how much of it was imported."""


class ImportConflict(RedisMessageQueueError):
    """Under this name, another file was imported before, or another import is running; nothing was written."""


class JobFailed(RedisMessageQueueError):
    """The job that the caller waits for is a dead letter; `reason` says why. `peek_dlq` shows its history."""

    _made_of = ("job_id", "reason")

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(f"job {job_id!r} is a dead letter: {reason}")
        self.job_id, self.reason = job_id, reason


_TLS = re.compile(r"\[(?:SSL|X509)[^]]*: (\w+)\] ([^(\]]*)")
_OF_CLIENT = "ssl_certfile, ssl_keyfile: the server refuses the certificate of this client, or the lack of one"
_NO_TLS = "url: no TLS is spoken there; write redis://"
_MISCONFIGURED = {
    "mismatch, certificate": "ssl_check_hostname: the certificate of the server is for another host; write a host that"
    " it names into the URL, or ssl_check_hostname=false where the network is trusted",
    "has expired": "the certificate of the server has expired, or the clock of this machine is wrong",
    "VERIFY_FAILED": "ssl_ca_certs: this client does not trust the authority that signed the certificate of the server;"
    " write the file with the certificate of that authority",
    "KEY_VALUES_MISMATCH": "ssl_certfile, ssl_keyfile: the key is not that of the certificate",
    **dict.fromkeys(
        ("ALERT_CERTIFICATE", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA", "HANDSHAKE_FAILURE"), _OF_CLIENT
    ),
    **dict.fromkeys(("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"), _NO_TLS),
}
"""What to change, by a text of the TLS library; the first that applies. Any other failure may end by itself."""


@contextmanager
def translated() -> Iterator[None]:
    """Raise RMQ's errors instead of redis-py's in code that uses a client without a driver."""
    from redis.exceptions import RedisClusterException, RedisError  # redis-py takes long to load

    try:
        yield
    except (RedisError, RedisClusterException, OSError) as error:
        raise translate(error) from error


def translate(error: Exception) -> RedisMessageQueueError:
    """Return the RMQ error for an exception of redis-py, with that exception as its cause."""
    known = _known(error, str(error))
    known.__cause__ = error
    return known


def _known(error: Exception, text: str) -> RedisMessageQueueError:
    from redis import exceptions as redis_errors  # loading redis-py takes longer than all of RMQ

    if isinstance(error, redis_errors.OutOfMemoryError) or text.startswith("OOM") or "OOM command" in text:
        return QueueFull("Redis has reached `maxmemory`; drain the queue or give the server more memory")
    refused = redis_errors.AuthenticationError | redis_errors.AuthorizationError
    if isinstance(error, refused) or isinstance(error.__cause__, refused):
        return ConfigurationError(f"Redis refused the `username` or `password`: {text}")
    misconfigured = _of_tls(text)
    if misconfigured or "No master found for" in text or ("unknown command" in text and "SENTINEL" in text):
        return misconfigured or _of_sentinels(text)
    unreachable = redis_errors.ConnectionError | redis_errors.TimeoutError | redis_errors.ReadOnlyError | OSError
    unreachable |= redis_errors.RedisClusterException | redis_errors.ClusterError | redis_errors.AskError
    unreachable |= redis_errors.MasterDownError | redis_errors.TryAgainError
    if isinstance(error, unreachable):
        full = isinstance(error, redis_errors.MaxConnectionsError) or text in FULL_POOL
        replica = isinstance(error, redis_errors.ReadOnlyError)
        return PoolExhausted(text) if full else QueueUnavailable(_unavailable(text, replica=replica))
    if "WRONGTYPE" in text:
        return WrongKeyType(f"a key of this queue holds a value of another type: {text}")
    return ScriptFailed(text)


def hopeless(error: Exception) -> bool:
    """Return whether a connection fails for a reason that trying again cannot change: certificates, or no TLS there."""
    return _of_tls(str(error)) is not None


def _of_tls(text: str) -> ConfigurationError | None:
    """Return the error for a refused certificate or handshake; None for any other text.

    redis-py keeps the text of the TLS library, also in its errors about sentinels and clusters.
    """
    found = _TLS.search(text)
    if found is None:
        return None
    said = next((said for sign, said in _MISCONFIGURED.items() if sign in found[0]), None)
    return None if said is None else ConfigurationError(f"{said} ({found[2].strip(' .')})")


def _unavailable(text: str, *, replica: bool) -> str:
    """Return the message for a server that cannot serve now."""
    # Redis 6.2 wraps the refusal of a script; redis-py has words of its own for a server that a sentinel has demoted.
    if replica or ": -READONLY " in text or "previous master is now a slave" in text:
        return (
            "this server is a replica and refuses writes; if no fail-over is in progress, write the address of the"
            " primary into the URL, or sentinel://"
        )
    if "EOF occurred in violation of protocol" in text:
        text += "; over TLS, a server that wants a certificate of the client ends connections like this (ssl_certfile)"
    return f"Redis did not answer: {text}"


def _of_sentinels(text: str) -> RedisMessageQueueError:
    """Translate an error of redis-py's Sentinel client. A failover becomes QueueUnavailable: it ends by itself."""
    if "unknown command" in text:
        return ConfigurationError("url: a Redis server answered, not a sentinel: write redis://, or the port 26379")
    asked = ", ".join(f"{host}:{port}" for host, port in re.findall(r"host=([^,>]+),port=(\d+)", text))
    service = re.search(r"No master found for (['\"].*?['\"])", text)
    name = service[1] if service else "of that name"
    if "AuthenticationError" in text:
        trouble = f"the sentinels at {asked} refused `sentinel_username` or `sentinel_password`, or require one"
    elif asked:
        tls = ", and ssl_ca_certs, ssl_certfile and ssl_keyfile" if "SSLConnection" in text else ""
        trouble = f"no sentinel answers for {name} at {asked}: check the hosts and ports of sentinel:// in the URL{tls}"
    else:
        trouble = f"the sentinels know no server {name} that is up: check the name in sentinel://hosts/name"
    return QueueUnavailable(trouble)
