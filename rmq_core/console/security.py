"""What each route of the console requires: a right of the user, and for changes a request from the console's own page.

Law: it fails closed. A check that raises an error ends the request, and no route answers without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Header, HTTPException, Request

from rmq_core.console.host import Right, host_of

HEADER = "X-RMQ-Request"


def user_of(request: Request) -> Any:
    """Return the user whom the host identified for this request."""
    return request.state.user


def _requires(right: Right) -> Callable[..., None]:
    def check(request: Request, connection_id: str) -> None:
        host, user = host_of(request), user_of(request)
        if not host.access.permitted(user, connection_id, right):
            raise HTTPException(403, host.words.refusal(right))
        # A user who may see messages may also see the server's address.
        request.state.sees_server = right != "numbers" or host.access.permitted(user, connection_id, "server")

    return check


def visible_error(request: Request, text: str) -> str:
    """Return the text of an error; without the right to see the server, what the host says in its place."""
    visible = getattr(request.state, "sees_server", True)  # routes without a server check no right, and name none
    return text if visible else host_of(request).words.refusal("server")


def is_foreign(request: Request) -> bool:
    """Return whether a browser says that a page of another origin made it send the request."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is None and origin is not None:
        return urlsplit(origin).netloc != request.headers.get("host")
    return site not in (None, "none", "same-origin")


def from_our_page(
    request: Request,
    x_rmq_request: Annotated[str | None, Header()] = None,
) -> None:
    """Refuse a change that another page, or an address that the user typed, may have made the browser send."""
    # A browser sends the login cookie with requests from foreign pages too. A foreign page cannot set a custom header
    # without a preflight request to the server, and the browser reports the origin of the request.
    foreign = is_foreign(request) or request.headers.get("sec-fetch-site") == "none"
    if foreign or x_rmq_request is None:
        raise HTTPException(403, f"{host_of(request).words.foreign} and with the header {HEADER}")


numbers = [Depends(_requires("numbers"))]
messages = [Depends(_requires("messages"))]
changes = [Depends(_requires("change")), Depends(from_our_page)]
"""Required by every route that changes something: the right, and a request from our own page."""
