"""Lines are read whole out of a file that grows, the same ones by everybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.compat.backend import Lines
from torchx_core.compat.processes import read_lines

CHUNK = 1 << 20


def read_all(path: Path) -> list[tuple[str, bool]]:
    """Return every piece with whether a newline followed it."""
    pieces: list[tuple[str, bool]] = []
    lines = Lines((), 0, more=True)
    while lines.more or lines.texts:
        lines = read_lines(str(path), lines.position, ended=True)
        last = len(lines.texts) - 1
        pieces += [(text, lines.eol or i < last) for i, text in enumerate(lines.texts)]
    return pieces


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file to write to."""
    return tmp_path_factory.mktemp("logs") / "stdout.log"


@given(st.binary(max_size=200))
def test_what_is_read_is_what_was_written(file: Path, data: bytes) -> None:
    """Any bytes: put together again they are the text."""
    file.write_bytes(data)
    assert "".join(text + "\n" * eol for text, eol in read_all(file)) == data.decode(errors="replace")


def test_an_unfinished_line_waits_for_its_end(tmp_path: Path) -> None:
    """Unless its writer has ended."""
    path = tmp_path / "log"
    path.write_text("one\ntw")
    assert read_lines(str(path), 0, ended=False) == Lines(("one",), 4)
    assert read_lines(str(path), 4, ended=False) == Lines((), 4)
    assert read_lines(str(path), 4, ended=True) == Lines(("tw",), 6, eol=False)


def test_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """It may come later."""
    assert read_lines(str(tmp_path / "none"), 0, ended=False) == Lines((), 0)


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("character", ["x", "é", "€", "🙂"])
def test_a_very_long_line_comes_in_pieces(tmp_path: Path, character: str, shift: int) -> None:
    """None of which cuts a character in two."""
    path = tmp_path / "log"
    line = "." * shift + character * CHUNK
    path.write_text(f"{line}\nnext\n")
    pieces = read_all(path)
    assert "".join(text for text, _ in pieces) == f"{line}next"
    assert [eol for _, eol in pieces][-2:] == [True, True]
    assert not any(eol for _, eol in pieces[:-2])
    assert len(pieces) > 2 or len(line.encode()) <= CHUNK


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    """A whole chunk may consist of such bytes."""
    path = tmp_path / "log"
    path.write_bytes(b"\xff\n" + b"\x80" * (CHUNK + 1) + b"\n")
    pieces = read_all(path)
    assert pieces[0] == ("\ufffd", True)
    assert "".join(text for text, _ in pieces[1:]) == "\ufffd" * (CHUNK + 1)
