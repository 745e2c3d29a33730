"""An Airflow with FAB's auth manager: `python -m tests.airflow.plugin.fab` prints what each user may do, as JSON.

The whole API server, without a port, with users that log in with their password. It needs the FAB provider on the path,
and a connection `queues` that the page shows; the names of the users are those of the documentation.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import httpx
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.utils.db import initdb

from tests.airflow.plugin.rights import rights_of

CONNECTION = "queues"
PUBLIC_ROLE = "AIRFLOW__FAB__AUTH_ROLE_PUBLIC"
SEES_PLUGINS = ("can_read", "Plugins")
OWN_ROLES = {
    "with `can_read` on *Plugins*": (SEES_PLUGINS,),
    "with `can_read` on *Plugins* and *Connections*": (SEES_PLUGINS, ("can_read", "Connections")),
}
ROLES = ("Viewer", "User", "Op", "Admin", *OWN_ROLES)
VISITORS = {
    "not logged in": None,
    "not logged in, `auth_role_public` with `can_read` on *Plugins*": "with `can_read` on *Plugins*",
    "not logged in, `auth_role_public = Op`": "Op",
}


def add_users() -> None:
    """Add a user for each role, whose name and password are the name of the role."""
    manager: Any = get_auth_manager()
    security = manager.security_manager
    with manager.flask_app.app_context():
        for role in ROLES:
            made = security.find_role(role) or security.add_role(role)
            for permission in OWN_ROLES.get(role, ()):
                security.add_permission_to_role(made, security.get_permission(*permission))
            assert security.add_user(role, role, "x", f"{ROLES.index(role)}@test", made, password=role)


def client(app: Any, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://airflow.test", headers=headers)


async def ask(app: Any) -> dict[str, list[str]]:
    """Return the rights of every user, and of visitors."""
    rights = {}
    for role in ROLES:
        async with client(app) as nobody:
            answer = await nobody.post("/auth/token", json={"username": role, "password": role})
        token = answer.raise_for_status().json()["access_token"]
        async with client(app, Authorization=f"Bearer {token}") as user:
            rights[role] = await rights_of(user, CONNECTION)
    for visitor, public_role in VISITORS.items():
        os.environ[PUBLIC_ROLE] = public_role or ""
        async with client(app) as nobody:
            rights[visitor] = await rights_of(nobody, CONNECTION)
    return rights


def starts_with_teams() -> bool:
    """Return whether the auth manager can be initialised in multi-team mode."""
    os.environ["AIRFLOW__CORE__MULTI_TEAM"] = "True"
    try:
        get_auth_manager().init()
    except NotImplementedError:
        return False
    return True


def main() -> None:
    """Create the database, the application and the users, and ask."""
    initdb()
    os.environ[PUBLIC_ROLE] = "Public"  # without one, the application has no middleware for visitors
    app = create_app()
    add_users()
    rights = asyncio.run(ask(app))
    print(f"\n{json.dumps([rights, starts_with_teams()])}")


if __name__ == "__main__":
    main()
