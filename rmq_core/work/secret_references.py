"""Secrets by reference: `env:REDIS_PASSWORD` says where a credential is, and may be shown, logged and stored.

Law: the value of a secret appears in no error and in no log. What is no reference may be a value that somebody passed
by mistake, so an error does not show it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from rmq_core.errors import ConfigurationError

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
