"""How much room text takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.cli.widths import cell_width, fit, one_line

TEXTS = st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs", "Mn"]))


@given(TEXTS, st.integers(min_value=0, max_value=30))
def test_what_is_fitted_fits(text: str, width: int) -> None:
    """Nothing is wider than asked for, and what fits is left as it is."""
    assert cell_width(fit(text, width)) <= width
    if cell_width(text) <= width:
        assert fit(text, width) == text


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x1b]8;;http://x\x1b\\",
        "\x1b[31m",
        "\x1bP+q\x1b\\",
        "\x1bc",
        "\r",
        "\x9b2J",
        "\x00",
        "\x07",
        "\x7f",
        "\x1b",
        "\x1b[",
        "\x1b]never ended",
    ],
)
def test_nothing_that_moves_the_cursor_is_left(hostile: str) -> None:
    """A line of an app that is put into a table cannot change the terminal."""
    assert one_line(f"a{hostile}").isprintable()


@given(st.text())
def test_any_text_becomes_one_printable_line(text: str) -> None:
    """Whatever an app prints."""
    assert one_line(text).isprintable()
