"""The lines of an export: golden header and last line, and files that are no export or not whole."""

from __future__ import annotations

import pytest

from rmq_core.envelope.export_record import StoredMessage
from rmq_core.errors import ExportDamaged
from rmq_core.transfer.exporting import Digest, ExportFile, Footer, Header, footer_line, header_line, message_line

HEADER = (
    b'{"rmq":"export","format":1,"queue":"q","discipline":"leased","version":"0.2.0","states":["ready"],'
    b'"messages":{"ready":2},"live":false}\n'
)
MESSAGES = [message_line(StoredMessage("ready", b"0 1000 0 m%d s0 t" % number)) for number in range(2)]
FOOTER = (
    b'{"rmq":"end","messages":2,"states":{"ready":2},"digest":"6c13da7317868875a3b076aa5346292b","changed":false}\n'
)


def digest_of(*lines: bytes) -> str:
    digest = Digest()
    for line in lines:
        digest.add(line.rstrip(b"\n"))
    return digest.text


def read(*lines: bytes) -> ExportFile:
    """A file, read to its end."""
    file = ExportFile(lines)
    list(file)
    return file


def test_the_lines_of_an_export_stay_as_they_are_for_ever() -> None:
    assert header_line(Header("q", "leased", "0.2.0", ["ready"], {"ready": 2})) == HEADER
    assert MESSAGES[0] == b'{"state":"ready","id":"m0","kind":"s","payload":"t","enqueued_ms":1000}\n'
    assert footer_line(Footer(2, {"ready": 2}, digest_of(*MESSAGES))) == FOOTER


def test_a_whole_file_is_read_to_its_end() -> None:
    file = ExportFile([HEADER, *MESSAGES, FOOTER])
    assert file.header == Header("q", "leased", "0.2.0", ["ready"], {"ready": 2})
    assert file.first == digest_of(MESSAGES[0])
    assert [(line.number, line.text) for line in file] == [(2, MESSAGES[0][:-1]), (3, MESSAGES[1][:-1])]
    assert (file.messages, file.digest.text) == (2, digest_of(*MESSAGES))
    file.check_end("")


@pytest.mark.parametrize("cut", [1, 20, len(FOOTER) + 1, len(FOOTER) + 10])
def test_a_truncated_file_is_noticed_and_its_last_piece_is_no_message(cut: int) -> None:
    text = b"".join([HEADER, *MESSAGES, FOOTER])[: -cut - 1]
    file = read(*text.splitlines(keepends=True))
    assert file.messages == (2 if cut < len(FOOTER) else 1)
    with pytest.raises(ExportDamaged, match=rf"truncated: it ends after {file.messages} messages .*; go on"):
        file.check_end("go on", edited=True)


@pytest.mark.parametrize("lines", [[MESSAGES[0]], MESSAGES[::-1], [*MESSAGES, MESSAGES[0]]])
def test_a_file_that_was_altered_is_noticed_unless_that_is_wanted(lines: list[bytes]) -> None:
    file = read(HEADER, *lines, FOOTER)
    with pytest.raises(ExportDamaged, match=r"altered: its last line states 2 messages, .* --edited"):
        file.check_end("")
    file.check_end("", edited=True)


def test_two_files_in_one_are_refused() -> None:
    with pytest.raises(ExportDamaged, match="line 5 comes after the last line"):
        read(HEADER, *MESSAGES, FOOTER, HEADER)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"", "line 1 is not the header"),
        (MESSAGES[0], "line 1 is not the header"),
        (b"[1]\n", "line 1 is not the header"),
        (b"\x00" * 100, "line 1 is not the header"),
        (b"[" * 100_000, "line 1 is not the header"),
        (HEADER.replace(b'"format":1', b'"format":2'), r"format 2, written by RMQ 0.2.0; this version reads format 1"),
        (HEADER.replace(b'"states":["ready"],', b""), "no 'states'"),
        (HEADER.replace(b'"queue":"q"', b'"queue":5'), "of another type"),
    ],
)
def test_a_file_that_is_no_export_is_refused(line: bytes, named: str) -> None:
    with pytest.raises(ExportDamaged, match=named):
        ExportFile([line])


def test_a_last_line_that_is_none_is_refused() -> None:
    with pytest.raises(ExportDamaged, match="line 2: the last line of the export has no 'digest'"):
        read(HEADER, b'{"rmq":"end","messages":1,"states":{}}\n')
    with pytest.raises(ExportDamaged, match="line 2 is not the last line"):
        read(HEADER, b'{"rmq":"start"}\n')
