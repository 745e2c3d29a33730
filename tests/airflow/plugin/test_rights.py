"""What each role may do on the page *Queues*, asked with users of each auth manager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.airflow.conftest import CANARY
from tests.airflow.home import ROOT
from tests.airflow.plugin.conftest import CONNECTION, Asking
from tests.airflow.plugin.rights import OPTION, rights_of

# Opens the page, sees numbers, sees them with the option `numbers_for_all_users`, sees messages, makes changes.
SIMPLE = {
    "viewer": ["yes", "no", "yes", "no", "no"],
    "user": ["yes", "no", "yes", "no", "no"],
    "op": ["yes", "yes", "yes", "yes", "yes"],
    "admin": ["yes", "yes", "yes", "yes", "yes"],
    "not logged in": ["no", "no", "no", "no", "no"],
}
TEAMS = {
    "op of the team": ["yes", "yes", "yes", "yes", "yes"],
    "op of another team": ["yes", "no", "no", "no", "no"],
    "viewer of the team": ["yes", "no", "yes", "no", "no"],
    "viewer of another team": ["yes", "no", "no", "no", "no"],
    "admin of no team": ["yes", "yes", "yes", "yes", "yes"],
    "viewer of any team, if the connection has none": ["yes", "no", "yes", "no", "no"],
}
FAB = {
    "Viewer": ["no", "no", "no", "no", "no"],
    "User": ["no", "no", "no", "no", "no"],
    "Op": ["yes", "yes", "yes", "yes", "yes"],
    "Admin": ["yes", "yes", "yes", "yes", "yes"],
    "with `can_read` on *Plugins*": ["yes", "no", "yes", "no", "no"],
    "with `can_read` on *Plugins* and *Connections*": ["yes", "yes", "yes", "no", "no"],
    "not logged in": ["no", "no", "no", "no", "no"],
    "not logged in, `auth_role_public` with `can_read` on *Plugins*": ["yes", "no", "no", "no", "no"],
    "not logged in, `auth_role_public = Op`": ["yes", "yes", "yes", "yes", "yes"],
}
FAB_PINS = ROOT / "tests/airflow/fab.txt"
FAB_MANAGER = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
SIMPLE_ROLES = "airflow/plugin/test_rights.py::test_the_roles_of_the_simple_auth_manager_have_their_rights"


@pytest.fixture(autouse=True)
def some_work(secured_url: str, queue: Any) -> None:
    queue.publish("secret payload")


@pytest.fixture
def user(asking: Asking, auth_manager: Any) -> Callable[..., httpx.AsyncClient]:
    """Make clients of Airflow: `user("op", "blue")` is an op of the team blue."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    def make(role: str, *teams: str) -> httpx.AsyncClient:
        token = auth_manager.generate_jwt(SimpleAuthManagerUser(username=role, role=role.upper(), teams=list(teams)))
        client = asking(None, Authorization=f"Bearer {token}")
        client.base_url = httpx.URL("http://airflow.test")
        return client

    return make


@pytest.fixture
def teams(monkeypatch: pytest.MonkeyPatch, stored: Callable[..., str], secured_url: str) -> Iterator[dict[str, str]]:
    """Multi-team mode; connections by their team: one of blue in the database, one of no team in the environment."""
    from airflow.models.team import Team
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        session.add_all([Team(name="blue"), Team(name="red")])
    place = urlsplit(secured_url)
    fields = {"conn_type": "redis_queue", "host": place.hostname, "port": place.port, "login": "airflow"}
    monkeypatch.setenv("AIRFLOW_CONN_NO_TEAM", json.dumps({**fields, "password": CANARY}))
    monkeypatch.setenv("AIRFLOW__RMQ__CONNECTIONS", "no_team")
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    yield {"": "no_team", "blue": stored("of_blue", **fields, password=CANARY, team_name="blue")}
    with create_session() as session:
        session.execute(delete(Team))


@pytest.mark.parametrize("who", SIMPLE)
async def test_the_roles_of_the_simple_auth_manager_have_their_rights(
    who: str, user: Callable[..., httpx.AsyncClient], asking: Asking, queues: str
) -> None:
    client = user(who) if who != "not logged in" else asking()
    client.base_url = httpx.URL("http://airflow.test")
    assert await rights_of(client, CONNECTION) == SIMPLE[who]


USERS_OF_TEAMS = {
    "op of the team": ("op", "blue"),
    "op of another team": ("op", "red"),
    "viewer of the team": ("viewer", "blue"),
    "viewer of another team": ("viewer", "red"),
    "admin of no team": ("admin",),
    "viewer of any team, if the connection has none": ("viewer", "red"),
}


@pytest.mark.parametrize("who", TEAMS)
async def test_users_of_teams_have_their_rights(
    who: str, user: Callable[..., httpx.AsyncClient], teams: dict[str, str]
) -> None:
    place = teams["" if "if the connection has none" in who else "blue"]
    assert await rights_of(user(*USERS_OF_TEAMS[who]), place) == TEAMS[who]


async def test_who_sees_numbers_by_the_option_sees_no_server_and_no_text_of_an_error(
    user: Callable[..., httpx.AsyncClient],
    queues: str,
    stored: Callable[..., str],
    secured_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(OPTION, "True")
    place = str(urlsplit(secured_url).port)
    stored("gone", conn_type="redis_queue", host="127.0.0.1", port=1)
    stored("wrong", conn_type="redis_queue", host="secret-host", extra=json.dumps({"url": "gopher://secret-host"}))
    paths = [f"/rmq/api/connections{part}" for part in ("", f"/{CONNECTION}/queues", "/gone/queues", "/wrong/queues")]
    told = {}
    for role in ("viewer", "op"):
        client = user(role)
        told[role] = [await client.get(path) for path in paths]
    assert [answer.status_code for answer in told["viewer"]] == [answer.status_code for answer in told["op"]]
    assert [answer.status_code for answer in told["viewer"]] == [200, 200, 503, 400]
    text = " ".join(answer.text for answer in told["viewer"])
    assert not [secret for secret in (place, "127.0.0.1", "secret-host", CANARY) if secret in text]
    assert told["viewer"][1].json()["server"] == ""
    assert "only users who may read this connection" in told["viewer"][2].json()["detail"]
    assert place in told["op"][1].json()["server"]
    assert "127.0.0.1" in told["op"][2].json()["detail"]


@pytest.fixture(scope="module")
def fab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the FAB provider, for the path of another Python."""
    folder = tmp_path_factory.mktemp("fab")
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*install, "--requirements", str(FAB_PINS)], check=True)
    return folder


@pytest.mark.nightly(SIMPLE_ROLES)
def test_the_roles_of_fab_have_their_rights(fab: Path, secured_url: str, tmp_path: Path) -> None:
    place = urlsplit(secured_url)
    fields = {"conn_type": "redis_queue", "host": place.hostname, "port": place.port, "login": "airflow"}
    own = {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__AUTH_MANAGER": FAB_MANAGER,
        "AIRFLOW__RMQ__CONNECTIONS": CONNECTION,
        f"AIRFLOW_CONN_{CONNECTION.upper()}": json.dumps({**fields, "password": CANARY}),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(fab), os.environ.get("PYTHONPATH", "")])),
    }
    asked = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.airflow.plugin.fab"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | own,
        cwd=ROOT,
    )
    assert asked.returncode == 0, asked.stdout[-4000:] + asked.stderr[-4000:]
    rights, starts_with_teams = json.loads(asked.stdout.splitlines()[-1])
    assert rights == FAB
    assert not starts_with_teams
