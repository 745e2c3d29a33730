from __future__ import annotations

import json

import pytest
from rich.text import Text

from rmq_core.cli.output import ago, complain, counted, emit, plain, preview, say, show


def test_control_characters_of_foreign_text_cannot_act_on_a_terminal() -> None:
    assert plain("a\x1b[31mb\n\tc\x07") == "a\\x1b[31mb\\n\\tc\\x07"


def test_brackets_of_foreign_text_are_not_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show(("payload",), [("[bold]x[/bold] :smile:",)], "")
    say("[red]y")
    assert "[bold]x[/bold] :smile:" in (out := capsys.readouterr().out)
    assert "[red]y" in out


def test_an_empty_table_prints_a_notice(capsys: pytest.CaptureFixture[str]) -> None:
    show(("a",), [], "nothing here")
    assert capsys.readouterr().out == "nothing here\n"


def test_a_piped_table_is_not_cut_at_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show(("a", "b"), [("x" * 70, "y" * 70)], "")
    assert f"{'x' * 70}  {'y' * 70}" in capsys.readouterr().out


def test_errors_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    complain("no [x]")
    assert capsys.readouterr() == ("", "rmq: no [x]\n")


def test_a_record_is_one_line_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"payload": "é\n\u2028"})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"payload": "é\n\u2028"}


@pytest.mark.parametrize(
    ("seconds", "told"), [(None, None), (0.2, "0 s"), (61, "1 min 1 s"), (3600, "1 h"), (90061, "1 d 1 h")]
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float | None, told: str | None) -> None:
    assert ago(seconds) == told


def test_a_count_of_one_uses_the_singular() -> None:
    assert [counted(number, "message") for number in (0, 1, 1000)] == ["0 messages", "1 message", "1,000 messages"]


def test_a_long_text_is_shown_by_its_beginning() -> None:
    assert preview("abcdef", 4) == "abc…"
    assert preview("abcd", 4) == "abcd"


def test_numbers_are_right_aligned_and_grouped_and_none_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    show(("n", "flag", "none"), [(12345, True, None), (1, False, None), (2, Text("t"), None)], "")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert lines == [["12,345", "yes", "-"], ["1", "-", "-"], ["2", "t", "-"]]


def narrow(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make rich believe that it writes to a terminal with this number of columns."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))


def test_a_table_that_is_too_wide_for_the_terminal_becomes_blocks_whose_ids_can_be_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow(80, monkeypatch)
    lease, owner = "dag/run/greet/-1" * 6, "airflow:dag/run/greet/-1/1" * 4
    show(("lease", "owner", "messages"), [(lease, owner, 1234), ("short", None, 1)], "")
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith(end) for line, end in zip(lines, (lease, owner, "1,234", "", "short"), strict=False)] == [
        True
    ] * 5


def test_a_table_with_one_long_column_stays_a_table_and_folds_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow(80, monkeypatch)
    show(("id", "payload"), [("1", "x" * 100)], "")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "payload"]
    assert all(len(line) <= 80 for line in lines)
    assert "".join(lines).count("x") == 100
