"""Tokens: how `rmq token` makes them, and how the server recognises one from a file that holds only their hashes.

A token is 32 random bytes, so a plain hash of it cannot be reversed by guessing, as that of a password could.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from rmq_core.errors import ConfigurationError

Role = Literal["numbers", "view", "change"]
"""numbers: how many messages there are, and metrics. view: also the messages. change: also changes, if allowed."""
ROLES: tuple[Role, ...] = get_args(Role)
NAME = re.compile(r"[\w.@+-]{1,64}", re.ASCII)
HASH = re.compile(r"[0-9a-f]{64}")
PREFIX = "rmq_"
LONGEST = 200


class TokenUser(NamedTuple):
    """The user whom a token, or a proxy, names."""

    name: str
    role: Role


class KnownToken(NamedTuple):
    """A line of the file."""

    user: TokenUser
    digest: bytes


def make(role: str, name: str) -> tuple[str, str]:
    """Return a new token, and its line for the file. Raises ConfigurationError."""
    token = PREFIX + secrets.token_urlsafe(32)
    line = f"{role}:{name}:{_digest(token).hex()}"
    _read_line(line, "")
    return token, line


class TokenFile:
    """The tokens of a file with lines `role:name:hash`. It is read again when it changes, so a removed line counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._known: Sequence[KnownToken] = ()
        self._renew()
        if not self._known:
            raise ConfigurationError(f"--tokens: {path} has no token; `rmq token` adds one")

    def user(self, token: str) -> TokenUser | None:
        """Return the user of a token. It takes the same time for every token that is not in the file."""
        self._renew()
        digest, found = _digest(token[:LONGEST]), None
        for known in self._known:
            if hmac.compare_digest(known.digest, digest):
                found = known.user
        return found

    def _renew(self) -> None:
        """Read the file if it changed. An unreadable file leaves nobody in: ConfigurationError at every request."""
        try:
            about = self._path.stat()
            stamp = (about.st_mtime_ns, about.st_size, about.st_ino)
            if stamp != self._stamp:
                self._known = _read(self._path)
                self._stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            self._stamp, self._known = None, ()
            raise ConfigurationError(f"--tokens: {self._path} cannot be read: {error}") from error
        except ConfigurationError:
            self._stamp, self._known = None, ()
            raise


def _read(path: Path) -> list[KnownToken]:
    lines = path.read_text("utf-8").splitlines()
    return [
        _read_line(line, f"{path}, line {number}: ")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]


def _read_line(line: str, place: str) -> KnownToken:
    role, _, rest = line.strip().partition(":")
    name, _, digest = rest.partition(":")
    if role not in ROLES or not NAME.fullmatch(name) or not HASH.fullmatch(digest):
        raise ConfigurationError(
            f"{place}write role:name:hash as `rmq token` prints it; the role is one of {', '.join(ROLES)}, the name has"
            " at most 64 letters, digits and . @ + - _"
        )
    return KnownToken(TokenUser(name, role), bytes.fromhex(digest))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
