"""Log lines as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from torchx_core.cli.lines import LastLines, LinePrinter, Selection
from torchx_core.cli.styles import in_colour, plainly
from torchx_core.schedulers import LogLines


def run(*lines: str, replica: int = 0, time: float = 100.0, eol: bool = True) -> LogLines:
    """Return some lines of role ``r``."""
    return LogLines("r", replica, 0, "stdout", lines, time, eol)


def test_every_line_begins_with_its_replica() -> None:
    """An empty line does so too."""
    assert LinePrinter(plainly, terminal=False).text(run("a", "", "c")) == "r/0 a\nr/0 \nr/0 c\n"


def test_pieces_of_a_long_line_are_one_line_again() -> None:
    """Unless another replica speaks in between."""
    printer = LinePrinter(plainly, terminal=False)
    pieces = [run("aa", eol=False), run("bb", eol=False), run("x", replica=1), run("cc", eol=False)]
    assert "".join(map(printer.text, pieces)) + printer.end() == "r/0 aabb\nr/1 x\nr/0 cc\n"


def test_a_progress_bar_is_redrawn_only_where_it_can_be() -> None:
    """A terminal shows its last state; a file keeps all of it."""
    bar = run("10%\r50%\r100%")
    assert LinePrinter(plainly, terminal=True).text(bar) == "r/0 100%\n"
    assert LinePrinter(plainly, terminal=False).text(bar) == "r/0 10%\r50%\r100%\n"


def test_replicas_have_colours_of_their_own() -> None:
    """The eye can follow one replica by its colour."""
    printer = LinePrinter(in_colour, terminal=True)
    assert printer.text(run("a"))[:5] != printer.text(run("a", replica=1))[:5]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), ("ab", "cd")),
        (Selection(replicas=frozenset([("r", 0)])), ("ab", "cd")),
        (Selection(replicas=frozenset([("r", 1)])), None),
        (Selection(regex=re.compile("c")), ("cd",)),
        (Selection(regex=re.compile("z")), None),
        (Selection(since=datetime.fromtimestamp(100, UTC)), ("ab", "cd")),
        (Selection(since=datetime.fromtimestamp(101, UTC)), None),
        (Selection(until=datetime.fromtimestamp(100, UTC)), None),
        (Selection(until=datetime.fromtimestamp(101, UTC)), ("ab", "cd")),
    ],
)
def test_lines_are_selected(selection: Selection, expected: tuple[str, ...] | None) -> None:
    """By replica, by what is found in them, and by when they were written."""
    chosen = selection.of(run("ab", "cd"))
    assert (chosen.lines if chosen else None) == expected


def test_a_line_has_an_end_unless_it_is_the_one_without() -> None:
    """Leaving out the last line leaves out that it had no newline."""
    unfinished = run("ab", "cd", eol=False)
    first, last = (Selection(regex=re.compile(x)).of(unfinished) for x in ("a", "c"))
    assert first is not None
    assert last is not None
    assert (first.eol, last.eol) == (True, False)


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (0, ""),
        (1, "r/0 d"),
        (2, "r/1 two pieces\nr/0 d"),
        (3, "r/0 c\nr/1 two pieces\nr/0 d"),
        (9, "r/0 a\nr/0 b\nr/0 c\nr/1 two pieces\nr/0 d"),
    ],
)
def test_the_last_lines_are_whole(most: int, shown: str) -> None:
    """Pieces of one line count once and stay together, whoever speaks in between; so does one without end."""
    last = LastLines(most)
    last.add([run("a", "b", "c"), run("two ", replica=1, eol=False)])
    last.add([run("d", eol=False), run("pieces", replica=1)])
    printer = LinePrinter(plainly, terminal=False)
    text = "".join(map(printer.text, last.runs())) + printer.end()
    assert text.rstrip("\n") == shown


def test_the_end_of_a_long_line_is_kept_only_with_its_beginning() -> None:
    """A piece that completes a line which is too far back is not shown as a line."""
    last = LastLines(2)
    last.add([run("begun ", eol=False), run("x", replica=1), run("y", replica=1)])
    last.add([run("ended", "z", "zz")])
    assert [line for piece in last.runs() for line in piece.lines] == ["z", "zz"]
