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


def from_our_page(
    request: Request,
    x_rmq_request: Annotated[str | None, Header()] = None,
    sec_fetch_site: Annotated[str | None, Header()] = None,
    origin: Annotated[str | None, Header()] = None,
) -> None:
    """Refuse a request that another page may have made the browser send."""
    # A browser sends the login cookie with requests from foreign pages too. A foreign page cannot set a custom header
    # without a preflight request to the server, and the browser reports the origin of the request.
    foreign = sec_fetch_site not in (None, "same-origin")
    if sec_fetch_site is None and origin is not None:
        foreign = urlsplit(origin).netloc != request.headers.get("host")
    if foreign or x_rmq_request is None:
        raise HTTPException(403, f"{host_of(request).words.foreign} and with the header {HEADER}")


numbers = [Depends(_requires("numbers"))]
messages = [Depends(_requires("messages"))]
changes = [Depends(_requires("change")), Depends(from_our_page)]
"""Required by every route that changes something: the right, and a request from our own page."""
