"""`Job`: the value that `add` returns and a handler gets. The envelope stores its name and options as headers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from rmq_core.envelope import codec
from rmq_core.envelope.codec import Failure, HeaderFields, failures_of
from rmq_core.envelope.payloads import PayloadLimits, decode_payload, encode_headers, encode_payload
from rmq_core.errors import ConfigurationError, MalformedMessage, PayloadError
from rmq_core.policy import Backoff, Exponential, exponential

NAME, ATTEMPTS, BACKOFF = "rmq-name", "rmq-attempts", "rmq-backoff"
_OURS = frozenset((NAME, ATTEMPTS, BACKOFF))
_NO_HEADERS: Mapping[str, str] = {}


class _JobFields(NamedTuple):
    id: str
    name: str
    data: Any
    attempt: int = 1
    created_ms: int | None = None
    attempts: int | None = None
    backoff: Backoff | None = None
    headers: Mapping[str, str] = _NO_HEADERS
    history: tuple[Failure, ...] = ()
    accepted: bool = True


class Job(HeaderFields, _JobFields):
    """A job. `attempt` is 1 the first time; `accepted` is False for a duplicate, which was not added.

    attempts, backoff: the arguments of `add`; None if the queue's settings apply. headers: the argument of `publish`.
    """

    __slots__ = ()

    @property
    def created_at(self) -> datetime | None:
        """The time at which the server stored the job, in UTC; None while it is unknown."""
        return None if self.created_ms is None else datetime.fromtimestamp(self.created_ms / 1000, UTC)


class Options(NamedTuple):
    """The decoded headers of an envelope."""

    name: str
    attempts: int | None
    backoff: Backoff | None
    headers: Mapping[str, str]


def check_id(job_id: str) -> str:
    """Return the id. Raises ConfigurationError if an envelope or a list of ids cannot hold it."""
    if not isinstance(job_id, str) or not 0 < len(job_id) <= 512 or not job_id.isprintable() or " " in job_id:
        raise ConfigurationError(f"job_id must be a text of 1 to 512 visible characters without spaces, not {job_id!r}")
    if "{" in job_id or "}" in job_id:
        raise ConfigurationError(f"job_id {job_id!r} must not hold braces")
    return job_id


def encode_data(data: Any, limits: PayloadLimits) -> tuple[str, bytes]:
    """Return the kind and bytes of a job's data, which is any payload or None."""
    return ("j", b"null") if data is None else encode_payload(data, limits)


def encode_options(name: str, attempts: int | None, backoff: Backoff | None) -> bytes:
    """Return the headers that store a name and options."""
    if backoff is not None and not isinstance(backoff, Exponential):
        raise ConfigurationError("backoff of a job must be exponential(...), which can be stored with it")
    return _encode(name, attempts, backoff)


def plain_headers(headers: Mapping[str, str] | None) -> bytes:
    """Return the encoded headers of a plain message. Raises PayloadError for a header that `add` sets."""
    taken = _OURS.intersection(headers or ())
    if taken:
        raise PayloadError(f"headers must not use {', '.join(sorted(taken))}: add(...) sets them")
    return encode_headers(headers)


def job_of(envelope: bytes, delivered: int = 0) -> Job:
    """Return the job in an envelope. `delivered` counts the earlier deliveries that no worker settled."""
    own = codec.split(envelope)
    options = _options_of(own.headers)
    return _job(own, options, delivered, decode_payload(own.kind, own.payload))


def job_without_data(envelope: bytes, delivered: int = 0) -> Job:
    """Return what `job_of` returns, without the data, which may be of a kind that this version does not know."""
    own = codec.split(envelope)
    return _job(own, _options_of(own.headers), delivered, None)


def _job(own: codec.Envelope, options: Options, delivered: int, data: Any) -> Job:
    attempt = own.deliveries + delivered + 1
    return Job(own.id, options.name, data, attempt, own.enqueued_ms, *options[1:], failures_of(own.history))


def _options_of(headers: bytes) -> Options:
    try:
        return read_options(headers) if headers else _PLAIN
    except ValueError as error:
        raise MalformedMessage(f"the headers of a stored entry, {len(headers)} bytes, are damaged") from error


@lru_cache(maxsize=1024)
def read_options(headers: bytes) -> Options:
    """Decode headers. Names and options repeat from job to job, so the results are cached."""
    found: dict[str, str] = json.loads(headers)
    attempts, backoff = found.get(ATTEMPTS), found.get(BACKOFF)
    rest = {key: value for key, value in found.items() if key not in _OURS}
    return Options(
        found.get(NAME, ""),
        None if attempts is None else int(attempts),
        None if backoff is None else exponential(*map(float, backoff.split(" "))),
        rest,
    )


_PLAIN = Options("", None, None, _NO_HEADERS)


@lru_cache(maxsize=1024, typed=True)
def _encode(name: str, attempts: int | None, backoff: Exponential | None) -> bytes:
    if not isinstance(name, str):
        raise ConfigurationError(f"name must be a str, not {type(name).__name__}")
    found = {NAME: name} if name else {}
    if attempts is not None:
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise ConfigurationError(f"attempts must be a whole number >= 1, not {attempts!r}")
        found[ATTEMPTS] = str(attempts)
    if backoff is not None:
        found[BACKOFF] = f"{backoff.base} {backoff.cap} {backoff.jitter}"
    return encode_headers(found)
