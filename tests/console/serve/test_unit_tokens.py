from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest

from rmq_console.serve import access
from rmq_console.serve.access import ROLES, TokenFile, TokenUser, make
from rmq_core import ConfigurationError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def test_a_token_is_recognised_by_its_hash_which_the_file_holds_alone(file: Path) -> None:
    made = {role: make(role, f"{role}@example.org") for role in ROLES}
    file.write_text("# who\n\n" + "\n".join(line for _, line in made.values()))
    known = TokenFile(file)
    for role, (token, line) in made.items():
        assert known.user(token) == TokenUser(f"{role}@example.org", role)
        assert len(token) > 40
        assert token not in line
        assert token not in file.read_text()


def test_every_token_is_compared_with_every_line_in_constant_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [make("view", f"user{number}") for number in range(5)]
    file.write_text("\n".join(line for _, line in made))
    known = TokenFile(file)
    compared: list[Any] = []

    def count(mine: bytes, theirs: bytes) -> bool:
        compared.append(len(mine) == len(theirs) == 32)
        return hmac_compare(mine, theirs)

    hmac_compare = hmac.compare_digest
    monkeypatch.setattr(access.hmac, "compare_digest", count)
    for token in (*(token for token, _ in made), "", "rmq_x", made[0][0][:-1], "x" * 100_000, "\udcff"):
        compared.clear()
        known.user(token)
        assert compared == [True] * 5


@pytest.mark.parametrize(
    "line",
    ["view:alice", "owner:alice:" + "0" * 64, "view::" + "0" * 64, "view:a b:" + "0" * 64, "view:alice:" + "0" * 63],
)
def test_a_wrong_line_is_named_with_its_number(file: Path, line: str) -> None:
    file.write_text(f"{make('view', 'bob')[1]}\n{line}\n")
    with pytest.raises(ConfigurationError, match="line 2: write role:name:hash"):
        TokenFile(file)


@pytest.mark.parametrize("text", [None, "", "# nobody\n"])
def test_a_file_without_a_token_is_refused(file: Path, text: str | None) -> None:
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match="--tokens"):
        TokenFile(file)


@pytest.mark.parametrize(("role", "name"), [("admin", "alice"), ("view", ""), ("view", "a:b"), ("view", "a\nb")])
def test_a_token_of_an_unknown_role_or_a_name_that_breaks_its_line_is_not_made(role: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match="role"):
        make(role, name)
