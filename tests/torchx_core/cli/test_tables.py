"""Tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchx_core.cli.styles import BAD, in_colour, plainly
from torchx_core.cli.tables import Cell, Column, lay_out
from torchx_core.cli.widths import cell_width, one_line

COLUMNS = (Column("NAME"), Column("SIZE", right=True), Column("TEXT", shrinks=True))


def test_columns_are_aligned() -> None:
    """Numbers at their ends, all else at its beginning, and no line ends in white space."""
    rows = [[Cell("a"), Cell("5"), Cell("x")], [Cell("long"), Cell("1000"), Cell("")]]
    assert lay_out(COLUMNS, rows, width=None, paint=plainly) == [
        "NAME  SIZE  TEXT",
        "a        5  x",
        "long  1000",
    ]


def test_a_narrow_terminal_cuts_the_columns_that_may_shrink() -> None:
    """The others stay whole, because a handle that was cut is of no use."""
    rows = [[Cell("a-long-name"), Cell("5"), Cell("a text that is much too long for this")]]
    assert lay_out(COLUMNS, rows, width=34, paint=plainly)[1] == "a-long-name     5  a text that is…"


def test_colours_take_no_room() -> None:
    """A painted field is aligned like a plain one."""
    rows = [[Cell("a", BAD), Cell("5"), Cell("x")]]
    plain, painted = (lay_out(COLUMNS, rows, width=None, paint=p) for p in (plainly, in_colour))
    assert [one_line(line) for line in painted] == plain
    assert "\x1b[1;31ma\x1b[0m" in painted[1]


@given(st.lists(st.text(), min_size=1, max_size=5), st.integers(min_value=40, max_value=90))
def test_hostile_text_neither_breaks_lines_nor_the_width(texts: list[str], width: int) -> None:
    """One row is one line of the terminal, whatever is in it."""
    lines = lay_out(COLUMNS, [[Cell("n"), Cell("1"), Cell(t)] for t in texts], width=width, paint=plainly)
    assert len(lines) == len(texts) + 1
    assert all(cell_width(line) <= width and line.isprintable() for line in lines)
