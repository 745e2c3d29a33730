"""One lease, two processes: a submitter claims it and hands it to a driver, which adopts it, works and settles.

Law: one holder at a time. The submitter keeps the lease alive until the driver adopts it under the same owner; from
then on it only watches. It expects its own driver to take the lease over; the lease is lost only when it is reclaimed
or has another owner. `LeaseWatch`, the thread that does both while the submitter waits, decides only to call `stop`: a
lost lease stops the driver. An unreachable Redis does not: the lease may still be valid, and the fence prevents a
driver that has lost the lease from settling anything.

A handover is a JSON object in a parameter, in an extra of Dagster Pipes, or in the driver's environment. It does not
include the token, because adopting creates a new one. It includes credentials only in the environment, which neither
`ps` nor Spark's pages show; parameters and extras, which services store and show, have references to secrets instead,
such as `env:REDIS_PASSWORD`. The value of a secret appears in no error and in no log; nor does what is no reference,
because it may be a value that was passed by mistake.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

from rmq_core.connection.settings import RedisSettings
from rmq_core.errors import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    LeftUnsettled,
    RedisMessageQueueError,
)
from rmq_core.leased.config import LeasedConfig
from rmq_core.leased.queue import LeasedQueue
from rmq_core.messages import Lease

Resolve: TypeAlias = Callable[[str], str]
"""Return the secret that a reference names, or raise."""
_REFERENCE = re.compile(r"[a-z][a-z0-9+.-]*:.+")


def resolve_secret(reference: str) -> str:
    """Return the secret that a reference names.

    - `env:NAME`: an environment variable of this process
    - `file:/path`: the content of a file, such as a mounted Secret of Kubernetes, without the line break at its end
    - `databricks:scope/key`: a secret of Databricks, read with the `dbutils` of the running cluster
    - `aws:secret-id`, `aws:secret-id#key`: a secret of AWS Secrets Manager, or one key of its JSON object; needs boto3

    Raises ConfigurationError, which names the reference, if there is no such secret or if it is empty. For another
    store of secrets, pass a function of your own that calls this one for the schemes above.
    """
    check_reference("reference", reference)
    scheme, _, name = reference.partition(":")
    if scheme not in _SCHEMES:
        raise ConfigurationError(
            f"{reference}: unknown scheme {scheme!r}; write {', '.join(f'{known}:' for known in _SCHEMES)} or pass"
            " `resolve`, a function that returns the secret of a reference"
        )
    secret = _SCHEMES[scheme](reference, name)
    if not secret:
        raise ConfigurationError(f"{reference}: the secret is empty; write the credential into it")
    return secret


def check_reference(name: str, reference: object) -> None:
    """Raise ConfigurationError unless `reference` has the form `scheme:name`."""
    if not isinstance(reference, str) or not _REFERENCE.fullmatch(reference):
        raise ConfigurationError(
            f"{name}: not a reference to a secret, which has the form scheme:name, as in env:REDIS_PASSWORD; never"
            " pass the secret itself"
        )


def _of_environment(reference: str, name: str) -> str:
    if name not in os.environ:
        raise ConfigurationError(f"{reference}: the process has no such variable; set it, or name another reference")
    return os.environ[name]


def _of_file(reference: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        why = "no text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise ConfigurationError(
            f"{reference}: the file cannot be read ({why}); mount the secret there, or name another reference"
        ) from None


def _of_databricks(reference: str, name: str) -> str:
    scope, _, key = name.partition("/")
    runtime = _imported(reference, "databricks.sdk.runtime", "only a cluster of Databricks can read it")
    return _asked(
        reference, lambda: runtime.dbutils.secrets.get(scope, key), "check scope, key and the READ permission"
    )


def _of_aws(reference: str, name: str) -> str:
    secret_id, _, key = name.partition("#")
    boto3 = _imported(reference, "boto3", "install boto3 where the driver runs")
    asked = "check the name, the region and secretsmanager:GetSecretValue"
    text = _asked(
        reference, lambda: boto3.client("secretsmanager").get_secret_value(SecretId=secret_id)["SecretString"], asked
    )
    return _member(reference, text, key) if key else text


def _member(reference: str, text: str, key: str) -> str:
    try:
        return str(json.loads(text)[key])
    except (ValueError, TypeError, KeyError):  # their texts and attributes may show the secret
        raise ConfigurationError(f"{reference}: the secret is no JSON object with the key {key!r}") from None


def _imported(reference: str, module: str, hint: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ConfigurationError(f"{reference}: there is no module {module} here; {hint}") from None


def _asked(reference: str, ask: Callable[[], Any], hint: str) -> str:
    try:
        return str(ask())
    except Exception as error:
        raise ConfigurationError(f"{reference} cannot be read ({type(error).__name__}); {hint}") from error


_SCHEMES: dict[str, Callable[[str, str], str]] = {
    "env": _of_environment,
    "file": _of_file,
    "databricks": _of_databricks,
    "aws": _of_aws,
}


FLAG = "--rmq-handover"
EXTRA = "rmq_handover"
VARIABLE = "RMQ_HANDOVER"


class Carried(NamedTuple):
    """The JSON object of a handover, and the words for the place where it was found."""

    place: str
    names: Mapping[str, Any]


def written(names: Mapping[str, Any]) -> str:
    """Return the names as JSON without `{{` and `}}`, which YARN, Databricks and Jinja replace in parameters.

    The last value must not be an object.
    """
    text = json.dumps(names, separators=(",", ":"))
    return text.replace("{{", "{\\u007b").replace("}}", "}\\u007d")  # only texts have two in a row


def in_parameters(argv: Sequence[str]) -> Carried | None:
    """Find `--rmq-handover JSON` or `--rmq-handover=JSON`. Raises ConfigurationError if it is there twice."""
    found = [text for at, text in enumerate(argv[1:]) if argv[at] == FLAG]
    found += [text.partition("=")[2] for text in argv if text.startswith(f"{FLAG}=")]
    if len(found) > 1:
        raise ConfigurationError(f"{FLAG} is given {len(found)} times; a driver adopts one lease")
    return Carried(FLAG, decoded(FLAG, found[0])) if found else None


def in_extras(extras: Mapping[str, Any]) -> Carried | None:
    """Find the extra `rmq_handover`."""
    return Carried(f"the extra {EXTRA}", checked(EXTRA, extras[EXTRA])) if EXTRA in extras else None


def in_pipes() -> Carried | None:
    """Find the extra of the Pipes session that this process has opened, if it has; this imports nothing."""
    context = getattr(sys.modules.get("dagster_pipes"), "PipesContext", None)
    return in_extras(context.get().extras) if context is not None and context.is_initialized() else None


def in_environment(environment: Mapping[str, str]) -> Carried | None:
    """Find `RMQ_HANDOVER`, with the address of `RMQ_URL`."""
    if VARIABLE not in environment:
        return None
    url = {"url": environment["RMQ_URL"]} if "RMQ_URL" in environment else {}
    return Carried(VARIABLE, url | dict(decoded(VARIABLE, environment[VARIABLE])))


def decoded(place: str, text: str) -> Mapping[str, Any]:
    """Return the JSON object in `text`. Raises ConfigurationError for anything else."""
    try:
        return checked(place, json.loads(text))
    except ValueError:
        return checked(place, None)


def checked(place: str, names: object) -> Mapping[str, Any]:
    """Return `names` if it is a mapping. Raises ConfigurationError for anything else."""
    if not isinstance(names, Mapping):
        raise ConfigurationError(f"{place} must be the JSON object that a submitter writes for its driver")
    return names


NAMES = ("queue", "lease_id", "owner")
_LONGEST_PACE_S = 5.0
SECRETS = ("username", "password", "sentinel_username", "sentinel_password", "ssl_password")
_PLAIN = ("username", "sentinel_username")  # not secret: they may be needed to find out why a login fails


@dataclass(frozen=True, slots=True)
class Handover:
    """A lease to be adopted, and the server and queue it is in. The driver adopts it only if `owner` still owns it.

    `lease_ms` is the length of a lease in the submitter's queue: `inf` for one that never expires, None if unknown.
    `adopt_ms` is how long a driver may take to adopt the lease while no process extends it; a driver that fails extends
    it by that time once more, for the driver of a retry. None if the submitter extends the lease until the adoption.
    """

    settings: RedisSettings
    queue: str
    lease_id: str
    owner: str
    lease_ms: int | str | None = None
    adopt_ms: int | None = None

    @property
    def config(self) -> LeasedConfig:
        """The configuration of the driver's queue: it holds an adopted lease no longer than the submitter would."""
        if self.lease_ms is None:
            return LeasedConfig()
        return LeasedConfig(lease=None if self.lease_ms == "inf" else int(self.lease_ms) / 1000)

    def environment(self) -> dict[str, str]:
        """Return the variables that carry the handover. They hold credentials: use them only as an environment."""
        names = self._names()
        given = _secrets(self.settings)
        names["credentials"] = list(given)  # the driver ignores others, which its process may inherit
        secrets = {_variable(name): value for name, value in given.items()}
        return {"RMQ_HANDOVER": json.dumps(names), "RMQ_URL": self.settings.url_without_credentials, **secrets}

    def parameters(self, secrets: Mapping[str, str] | None = None) -> list[str]:
        """Return the two parameters `--rmq-handover JSON`, which hold no secret.

        secrets: for each credential of the connection the reference with which the driver finds it, as in
        `{"password": "env:REDIS_PASSWORD"}`; see `resolve_secret`. User names are passed as they are, unless they have
        a reference, too. Raises ConfigurationError for a credential without a reference, and for a value in place of
        one.
        """
        return [FLAG, written(self._referring(secrets or {}))]

    def extras(self, secrets: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the same as `parameters`, as the extra `rmq_handover` for a client of Dagster Pipes."""
        return {EXTRA: self._referring(secrets or {})}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the submitter's handover. Raises ConfigurationError if there is none or if it is unusable."""
        found = in_environment(environment)
        if found is None:
            raise ConfigurationError(
                f"'RMQ_HANDOVER' is missing: a submitter sets RMQ_HANDOVER ({', '.join(NAMES)} as JSON) and RMQ_URL;"
                " to work without a submitter, claim instead of adopting"
            )
        return cls._read(found, environment, resolve_secret)

    @classmethod
    def from_parameters(cls, argv: Sequence[str] | None = None, *, resolve: Resolve = resolve_secret) -> Self:
        """Read the handover from the parameters of this process, or from `argv`.

        Other parameters are ignored. resolve: returns the secret of a reference. Raises ConfigurationError if there is
        no parameter `--rmq-handover`, or if it or a secret is unusable.
        """
        found = in_parameters(sys.argv[1:] if argv is None else argv)
        if found is None:
            raise ConfigurationError(f"{FLAG} is missing: pass the parameters that the submitter's hand-over returns")
        return cls._read(found, os.environ, resolve)

    @classmethod
    def from_extras(cls, extras: Mapping[str, Any], *, resolve: Resolve = resolve_secret) -> Self:
        """Read the handover from the extras of a Pipes session, as `from_parameters` does."""
        found = in_extras(extras)
        if found is None:
            raise ConfigurationError(f"the extra {EXTRA} is missing: pass what `Handover.extras` returns")
        return cls._read(found, os.environ, resolve)

    @classmethod
    def find(cls, *, resolve: Resolve = resolve_secret) -> Self:
        """Read the handover of this process, wherever it is.

        In this order: the parameter `--rmq-handover`, the extras of the session of Dagster Pipes that the process has
        opened, the environment. Raises ConfigurationError if there is none, or if two name different leases.
        """
        places = (in_parameters(sys.argv[1:]), in_pipes(), in_environment(os.environ))
        found = [place for place in places if place is not None]
        if not found:
            raise ConfigurationError(
                f"no lease was handed over: there is no parameter {FLAG}, no extra {EXTRA} of a"
                " Pipes session (open the session first), and no variable RMQ_HANDOVER; to work without a submitter,"
                " claim instead of adopting"
            )
        _check_same(found)
        return cls._read(found[0], os.environ, resolve)

    @classmethod
    def _read(cls, found: Carried, environment: Mapping[str, str], resolve: Resolve) -> Self:
        place, names = found
        if not all(isinstance(names.get(name), str) for name in NAMES):
            raise ConfigurationError(f"{place} must be a JSON object with {', '.join(NAMES)}")
        if "url" not in names:
            raise ConfigurationError(f"the address of Redis is missing: {place} has no `url`, and no RMQ_URL beside it")
        settings = RedisSettings.from_url(names["url"], **_credentials(found, environment, resolve))
        queue, lease_id, owner = (names[name] for name in NAMES)
        return cls(settings, queue, lease_id, owner, names.get("lease_ms"), names.get("adopt_ms"))

    def _names(self) -> dict[str, Any]:
        names = (*NAMES, "lease_ms", "adopt_ms")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _referring(self, secrets: Mapping[str, str]) -> dict[str, Any]:
        """Return the names with references in place of credentials. The URL comes last, as `written` demands."""
        check_secrets(self.settings, secrets)
        plain = {name: value for name in _PLAIN if name not in secrets and (value := getattr(self.settings, name))}
        return {**self._names(), **plain, "credentials": dict(secrets), "url": self.settings.url_without_credentials}


def _secrets(settings: RedisSettings) -> dict[str, str]:
    return {name: value for name in SECRETS if (value := getattr(settings, name))}


def check_secrets(settings: RedisSettings, secrets: Mapping[str, str]) -> None:
    """Raise ConfigurationError for a credential without a reference, and for a value in place of one.

    A submitter calls this before it claims, because a lease that cannot be handed over would only wait for its expiry.
    """
    given = _secrets(settings)
    for name, reference in secrets.items():
        if name not in SECRETS:
            raise ConfigurationError(f"secrets: {name!r} is no credential; these are {', '.join(SECRETS)}")
        check_reference(f"secrets[{name!r}]", None if reference == given.get(name) else reference)
    if missing := given.keys() - secrets.keys() - {*_PLAIN}:
        first = min(missing)
        raise ConfigurationError(
            f"secrets: name where the driver finds {' and '.join(sorted(missing))}, as in"
            f" {{{first!r}: 'env:REDIS_PASSWORD'}}"
        )


class Submission:
    """The submitter's view of a lease that it hands over, and the operations that it may still perform on it."""

    def __init__(self, queue: LeasedQueue, lease: Lease) -> None:
        self.lease = lease
        self.adopted = False
        self._queue = queue
        self._settled_by_driver = False
        self._deadline = lease.deadline

    @classmethod
    def resumed(cls, queue: LeasedQueue, lease: Lease, fence: int) -> Self | None:
        """Resume after a restart of the submitter while its driver runs; `lease` and `fence` are those of its claim.

        If a driver has adopted the lease, only watch it; otherwise take the lease back. Return None if another owner
        has it.
        """
        info = queue.lease_info(lease.id)
        if info is None or info.owner != lease.owner:
            return None
        if info.fence == fence:
            return cls(queue, queue.adopt(lease.id, owner=lease.owner, if_owner=lease.owner))
        watching = cls(queue, lease)
        watching.adopted, watching._deadline = True, info.deadline
        return watching

    @property
    def pace_s(self) -> float:
        """Seconds between two calls of `poll`, short enough to keep the lease alive and to notice a loss soon."""
        lease_ms = self._queue.config.lease_ms
        return _LONGEST_PACE_S if lease_ms == "inf" else min(_LONGEST_PACE_S, int(lease_ms) / 3000)

    @property
    def held(self) -> bool:
        """Whether the submitter still held the lease at the last call of `poll`."""
        return not (self.adopted or self._settled_by_driver)

    def handover(self, settings: RedisSettings) -> Handover:
        """Return the data that the driver needs in order to adopt the lease."""
        return Handover(settings, self._queue.name, self.lease.id, self.lease.owner, self._queue.config.lease_ms)

    def poll(self) -> None:
        """Extend the lease or, once the driver has adopted it, check that the driver holds it. Raises LeaseLost.

        Call it every `pace_s` seconds. QueueUnavailable does not mean a loss: the lease may still be alive.
        """
        if self._settled_by_driver:
            return
        if not self.adopted:
            with suppress(LeaseLost):
                self._deadline = self._queue.extend(self.lease)
                return
        info = self._queue.lease_info(self.lease.id)
        if info is None:
            self._explain_absence()
        elif info.owner != self.lease.owner:
            raise LeaseOwnedByOther(self.lease.id, f"it is owned by {info.owner!r}, not by {self.lease.owner!r}")
        else:
            self.adopted, self._deadline = True, info.deadline

    def finish(self) -> int | None:
        """Return, after the driver succeeded, how many messages were acked; None if it settled them one by one.

        Ack here if the driver never adopted the lease. Raises LeaseLost if another holder has the messages,
        LeftUnsettled if the driver adopted them and did not settle them.
        """
        if not self.adopted:
            with suppress(LeaseLost):
                self._queue.ack(self.lease)
                return self.lease.count
        record = self._queue.settled(self.lease.id)
        if record is not None and record.owner == self.lease.owner:
            return record.acked
        self.poll()
        if not self._settled_by_driver:
            raise LeftUnsettled(
                f"the driver adopted lease {self.lease.id!r}, ended without an error and left messages unsettled; let"
                " it settle them, leave the `with` block of its batch before it ends, or exit with an error code"
            )
        return None

    def keep(self, seconds: float | None = None) -> bool:
        """Take the lease back for `seconds`, None for the queue's usual lease. Return False if no message was left."""
        return self._take_back(seconds) is not None

    def give_up(self, reason: str) -> bool:
        """Nack the unsettled messages after the last attempt failed. Return False if none was left."""
        lease = self._take_back()
        if lease:
            self._queue.nack(lease, reason=reason)
        return lease is not None

    def give_back(self) -> bool:
        """Release the unsettled messages when no failure is to blame. Return False if none was left."""
        lease = self._take_back()
        if lease:
            self._queue.release(lease)
        return lease is not None

    def _take_back(self, seconds: float | None = None) -> Lease | None:
        # Adopting also fences off a driver that may still run; under the same owner it counts no delivery.
        owner = self.lease.owner
        with suppress(LeaseLost, LeaseAlreadySettled):
            return self._queue.adopt(self.lease.id, owner=owner, if_owner=owner, lease=seconds)
        return None

    def _explain_absence(self) -> None:
        """Find out why the lease is gone: it was settled, or it was reclaimed, which happens only after its deadline.

        Without a record, the lease counts as settled if its deadline has not passed: a driver that settles message by
        message leaves no record if one message failed. It may adopt the lease and settle every message between two
        calls of `poll`.
        """
        record = self._queue.settled(self.lease.id)
        in_time = self._deadline is None or self._queue.admin.server_time() < self._deadline
        if record is not None and record.owner != self.lease.owner:
            raise LeaseOwnedByOther(self.lease.id, f"{record.owner!r} has acked its messages")
        self._settled_by_driver = record is not None or in_time
        if not self._settled_by_driver:
            raise LeaseLost(self.lease.id, "it was reclaimed")


def _credentials(found: Carried, environment: Mapping[str, str], resolve: Resolve) -> dict[str, str | None]:
    """Return the credentials: those that a mapping refers to, or the variables of those that a list names."""
    meant = found.names.get("credentials", SECRETS)
    if isinstance(meant, Mapping):
        plain = {name: found.names.get(name) for name in _PLAIN}
        return plain | {name: resolve(meant[name]) for name in SECRETS if name in meant}
    return {name: environment.get(_variable(name)) for name in SECRETS if name in meant}


def _check_same(found: Sequence[Carried]) -> None:
    first, *others = ({name: place.names.get(name) for name in (*NAMES, "lease_ms", "url")} for place in found)
    if any(other != first for other in others):
        raise ConfigurationError(
            f"{' and '.join(place.place for place in found)} hand over different leases"
            f" ({', '.join(repr(place.names.get('lease_id')) for place in found)}): pass only one of them"
        )


def _variable(name: str) -> str:
    return f"RMQ_{name.upper()}"


EXIT_GRACE_S = 10.0  # a driver that adopted the lease ends by itself within 5 s of losing it, and logs why
log = logging.getLogger(__name__)


class LeaseWatch:
    """Use as `with LeaseWatch(submission, stop) as watch:`; `watch.lost` is the error that made it stop the driver."""

    def __init__(self, submission: Submission, stop: Callable[[], None]) -> None:
        self.lost: LeaseLost | None = None
        self._submission, self._stop = submission, stop
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rmq-submission-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()  # the thread uses the queue, which the caller closes next

    def _run(self) -> None:
        while not self._ended.wait(self._submission.pace_s):
            try:
                self._submission.poll()
            except LeaseLost as error:
                if not (self._submission.adopted and self._ended.wait(EXIT_GRACE_S)):
                    self.lost = error
                    self._stop()
                return
            except RedisMessageQueueError:
                log.warning("Lease %s cannot be read now.", self._submission.lease.id, exc_info=True)
