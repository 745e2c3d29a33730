from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmq_core.cli import main
from rmq_core.protocol import DISCIPLINES
from tests.redis.topologies import LOGIN, Certificates, cluster, sentinel


@pytest.fixture(params=[sentinel, cluster], ids=["sentinel", "cluster"], scope="module")
def variables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the environment variables that lead to several servers."""
    folder: Path = tmp_path_factory.mktemp("certificates")
    with request.param(Certificates(folder)) as topology:
        secrets = {**LOGIN, **topology.options}
        yield {"RMQ_URL": topology.url, **{f"RMQ_{name.upper()}": value for name, value in secrets.items()}}


@pytest.fixture
def rmq(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert isinstance(ended.value.code, int)
        return ended.value.code, "".join(capfd.readouterr())

    return run


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_command_works_behind_sentinels_and_in_a_cluster(
    rmq: Callable[..., tuple[int, str]], discipline: str
) -> None:
    queue = f"of {discipline}"
    payload = ['{"n":1}', "-j"] if discipline == "streams" else ["one"]
    assert rmq("publish", queue, *payload, "-d", discipline)[0] == 0
    assert queue in rmq("queues", "list")[1]
    assert queue in rmq("stats")[1]
    assert rmq("peek", queue)[0] == 0
    assert rmq("reap", queue)[0] == 0
    assert "1 acked" in rmq("consume", queue)[1]
    _, told = rmq("doctor", queue)
    assert "may do all that is needed" in told
    assert "loses every message" in told or "only replicas" in told
