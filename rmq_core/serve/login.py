"""The login page: a token becomes a cookie that no script can read and that no foreign page can make a browser send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from rmq_core.console.security import from_our_page
from rmq_core.serve.access import COOKIE, ByToken
from rmq_core.serve.tokens import LONGEST

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

    def log_in(request: Request, response: Response, wish: Login) -> dict[str, Any]:
        user = tokens.holder(request, wish.token.strip())
        _set(request, response, wish.token.strip(), WEEK_S)
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
