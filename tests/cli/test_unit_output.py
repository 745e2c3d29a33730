from __future__ import annotations

import json

import pytest

from rmq_cli.output import emit, plain, say, show


def test_control_characters_of_foreign_text_cannot_act_on_a_terminal() -> None:
    assert plain("a\x1b[31mb\n\tc\x07") == "a\\x1b[31mb\\n\\tc\\x07"


def test_brackets_of_foreign_text_are_not_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show(("payload",), [("[bold]x[/bold] :smile:",)], "")
    say("[red]y")
    assert "[bold]x[/bold] :smile:" in (out := capsys.readouterr().out)
    assert "[red]y" in out


def test_a_piped_table_is_not_cut_at_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show(("a", "b"), [("x" * 70, "y" * 70)], "")
    assert f"{'x' * 70}  {'y' * 70}" in capsys.readouterr().out


def test_a_record_is_one_line_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"payload": "é\n\u2028"})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"payload": "é\n\u2028"}
