"""How much room text takes."""

from __future__ import annotations

import subprocess
import sys

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
    ("text", "width"),
    [
        ("naïve — quoted…", 15),
        ("\U0001f469\u200d\U0001f4bb", 2),  # a woman, a joiner, a computer: one emoji
        ("\u2764\ufe0f", 2),  # a heart that is to be an emoji
        ("\U0001f1e9\U0001f1ea", 2),  # two letters that are a flag
        ("e\u0301", 1),
        ("日本", 4),
        ("", 0),
    ],
)
def test_text_takes_as_many_columns_as_a_terminal_gives_it(text: str, width: int) -> None:
    """By Unicode's tables, which `wcwidth` has."""
    assert cell_width(text) == width


@pytest.mark.parametrize("text", ["plain", "naïve", "cut…", "━━──"])
def test_latin_text_needs_no_tables(text: str) -> None:
    """They take longer to load than most commands take in all."""
    program = (
        "import sys; from torchx_core.cli.widths import cell_width; "
        f"assert cell_width({text!r}) == {len(text)}; sys.exit('wcwidth' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_the_tables_nothing_fails() -> None:
    """An upgrade may have left out the extra's newest distribution."""
    program = (
        "import sys; sys.modules['wcwidth'] = None; from torchx_core.cli.widths import fit; "
        "assert fit('日本語', 2) == '日…'"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


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
