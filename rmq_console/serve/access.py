"""Who may use the server: everybody on this machine, the holders of tokens, or the users whom a proxy names.

Law: it fails closed. A request without a recognised user gets nothing but the login page and the health checks. Changes
need the role and `--allow-changes`.

The server recognises a token from a file that holds only hashes. A token is 32 random bytes, so a plain hash of it
cannot be reversed by guessing, as that of a password could.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, get_args

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from rmq_console import Right
from rmq_console.host import from_our_page, is_foreign
from rmq_console.serve.rate_limit import FailedTries
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
        """Read the file if it changed. While it is unreadable, every request raises ConfigurationError."""
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


COOKIE = "rmq_token"
RIGHTS: dict[Role, tuple[Right, ...]] = {
    "numbers": ("numbers", "server"),
    "view": ("numbers", "server", "messages"),
    "change": ("numbers", "server", "messages", "change"),
}
LOCAL_NAMES = {"localhost", "127.0.0.1", "[::1]"}


class Recognition(Protocol):
    """A way to recognise the user of a request."""

    def user(self, request: Request) -> TokenUser:
        """Return the user. Raises HTTPException."""


class ServeAccess:
    """The access of the console: a way to recognise users, and whether changes are allowed at all."""

    def __init__(self, recognition: Recognition, *, allow_changes: bool) -> None:
        self._recognition, self._allow_changes = recognition, allow_changes

    def identify(self, request: Request) -> None:
        """Require a recognised user, and that no foreign page made the browser ask; it may link to the page itself."""
        navigates = request.headers.get("sec-fetch-mode") == "navigate" and request.url.path == "/"
        if is_foreign(request) and not navigates:
            raise HTTPException(403, "a page of another site asked for this; only the console's own page gets it")
        request.state.user = self._recognition.user(request)

    def permitted(self, user: TokenUser, place: str, right: Right) -> bool:
        """Return whether the role has the right."""
        del place  # there is one server
        return right in RIGHTS[user.role] and (right != "change" or self._allow_changes)

    def name(self, user: TokenUser) -> str:
        """Return the name for the audit log."""
        return user.name


class AnyoneHere:
    """Everybody who can connect to this machine's own address is one user.

    A page of a foreign site can make a browser connect here under a name of its own; only the names of this machine are
    answered, so such a page gets nothing.
    """

    def user(self, request: Request) -> TokenUser:
        """Return the one user."""
        host = request.headers.get("host", "")
        name, colon, port = host.rpartition(":")
        if (name if colon and port.isdigit() else host).lower() not in LOCAL_NAMES:
            raise HTTPException(403, "this server answers under the names of this machine only, such as localhost")
        return TokenUser("local", "change")


class ByToken:
    """The holder of a token, in the header `Authorization: Bearer …` or in the cookie that the login page sets."""

    def __init__(self, tokens: TokenFile, tries: FailedTries) -> None:
        self._tokens, self._tries = tokens, tries

    def user(self, request: Request) -> TokenUser:
        """Return the holder of the request's token."""
        token = _bearer(request) or request.cookies.get(COOKIE)
        if not token:
            _refuse(request, "a token is needed: log in, or send it as a bearer token")
        return self.holder(request, token)

    def holder(self, request: Request, token: str) -> TokenUser:
        """Return the holder of a token, and count a failed try. Raises HTTPException."""
        address = request.client.host if request.client else ""
        if wait_s := self._tries.wait_s(address):
            raise HTTPException(429, "too many failed tries; wait a minute", {"Retry-After": str(wait_s)})
        try:
            found = self._tokens.user(token)
        except ConfigurationError:
            raise HTTPException(503, "the tokens cannot be read; the log of the server says why") from None
        if found is None:
            self._tries.add(address)
            _refuse(request, "this token is not valid")
        return found


class ByProxy:
    """The user whom a header of a proxy names. Only a proxy at one of the given addresses is believed."""

    def __init__(self, header: str, proxies: Proxies, changing: Sequence[str]) -> None:
        self._header, self._proxies, self._changing = header, proxies, frozenset(changing)

    def user(self, request: Request) -> TokenUser:
        """Return the user whom the proxy names."""
        if not self._proxies.include(request.state.peer):
            raise HTTPException(401, "requests are accepted from the proxy only")
        names = request.headers.getlist(self._header)
        if len(names) != 1 or not names[0].strip():
            raise HTTPException(401, f"the proxy named no user in the header {self._header}")
        name = names[0].strip()
        return TokenUser(name, "change" if name in self._changing else "view")


class Proxies:
    """The addresses and networks of proxies. Raises ConfigurationError."""

    def __init__(self, given: Sequence[str]) -> None:
        self._networks = [_network(text) for text in given]

    def include(self, address: str) -> bool:
        """Return whether an address is one of a proxy."""
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network for network in self._networks)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigurationError(f"--proxy: {text!r} is no address or network: {error}") from error


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _refuse(request: Request, why: str) -> NoReturn:
    if request.url.path == "/" and request.method == "GET":
        raise HTTPException(303, why, {"Location": "login"})
    raise HTTPException(401, why, {"WWW-Authenticate": "Bearer"})


STATIC = Path(__file__).with_name("static")
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cache-Control": "no-cache",
}
WEEK_S = 7 * 86400


class Login(BaseModel):
    """The token of a user."""

    token: str = Field(min_length=1, max_length=LONGEST)


def login_routes(tokens: ByToken) -> APIRouter:
    """Return the routes of the login page."""
    router = APIRouter()

    @router.get("/login")
    def page() -> FileResponse:
        return FileResponse(STATIC / "login.html", headers=POLICY)

    @router.get("/login/{name}")
    def asset(name: str) -> FileResponse:
        if name not in {"login.js", "login.css"}:
            raise HTTPException(404, f"there is no {name!r}")
        return FileResponse(STATIC / name, headers=POLICY)

    def log_in(request: Request, response: Response, body: Login) -> dict[str, Any]:
        user = tokens.holder(request, body.token.strip())
        _set(request, response, body.token.strip(), WEEK_S)
        return {"user": user.name, "role": user.role}

    def log_out(request: Request, response: Response) -> dict[str, Any]:
        _set(request, response, "", 0)
        return {}

    router.add_api_route("/login", log_in, methods=["POST"], dependencies=[Depends(from_our_page)])
    router.add_api_route("/logout", log_out, methods=["POST"], dependencies=[Depends(from_our_page)])
    return router


def _set(request: Request, response: Response, token: str, seconds: int) -> None:
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, max_age=seconds, httponly=True, samesite="strict", secure=secure)
