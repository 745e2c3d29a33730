"""Who may use the server: everybody on this machine, the holders of tokens, or the users whom a proxy names.

Law: it fails closed. A request without a recognised user gets nothing but the login page and the health checks. Changes
need the role and `--allow-changes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NoReturn, Protocol

from fastapi import HTTPException, Request

from rmq_core.console import Right
from rmq_core.console.security import is_foreign
from rmq_core.errors import ConfigurationError
from rmq_core.serve.rate_limit import FailedTries
from rmq_core.serve.tokens import Role, TokenFile, TokenUser

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
