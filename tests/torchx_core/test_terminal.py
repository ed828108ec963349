"""What of foreign text a terminal may be shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.terminal import harmless

HOSTILE = {
    "title": "\x1b]0;owned\x07",
    "title with ST": "\x1b]2;owned\x1b\\",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "link": "\x1b]8;;http://x\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "up": "\x1b[5A",
    "status report": "\x1b[6n",
    "other screen": "\x1b[?1049h",
    "modify other keys": "\x1b[>4;2m",
    "query": "\x1bP+q544e\x1b\\",
    "reset": "\x1bc",
    "character set": "\x1b(0",
    "shift out": "\x0e",
    "C1 sequence": "\x9b2J",
    "C1 string": "\x9d0;owned\x9c",
    "carriage return": "\r",
    "backspace": "\b",
    "bell": "\a",
    "delete": "\x7f",
    "escape": "\x1b",
}
PIECES = st.lists(
    st.sampled_from(
        ["\x1b", "\x9b", "\x9d", "\x90", "[", "]", "31", ";", "m", "J", "\x07", "\\", "a", "\n", "\r"]
    )
    | st.characters()
).map("".join)


@pytest.mark.parametrize("sequence", HOSTILE.values(), ids=HOSTILE)
def test_nothing_is_left_of_what_drives_a_terminal(sequence: str) -> None:
    """The words before and behind it stay."""
    assert harmless(f"before {sequence}é behind") == "before é behind"


@pytest.mark.parametrize(
    "text", ["\x1b[1;31mred\x1b[0m", "\x1b[38:5:9mred\x1b[m", "tab\tand\nnewline", "été 日本 👩‍🔬"]
)
def test_words_and_colours_stay(text: str) -> None:
    """They are what people write to be looked at."""
    assert harmless(text) == text


def test_a_colour_ends_with_its_line() -> None:
    """What comes next belongs to another replica, or to the shell."""
    assert harmless("\x1b[31mred\nplain\x1b[7m") == "\x1b[31mred\x1b[0m\nplain\x1b[7m\x1b[0m"


def test_colours_can_be_left_out() -> None:
    """Where a terminal has none, or its user wants none."""
    assert harmless("\x1b[1;31mred\x1b[0m", colours=False) == "red"


@pytest.mark.parametrize("sequence", ["\x1b]0;title", "\x1b[2", "\x1bP+q", "\x9d0;title"])
def test_a_sequence_without_an_end_swallows_nothing(sequence: str) -> None:
    """A terminal would wait for the end and hide all that follows: lines of other replicas, too."""
    assert harmless(f"{sequence}\nnext line").endswith("\nnext line")


@given(PIECES, st.integers(min_value=0, max_value=40))
def test_no_piece_of_any_text_drives_a_terminal(text: str, at: int) -> None:
    """What is shown of a text holds no command for a terminal, also when the text comes in two pieces."""
    for shown in (harmless(text), harmless(text[:at]) + harmless(text[at:])):
        without = re.sub(r"\x1b\[[0-9;:]*m", "", shown)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", without)
        assert shown == harmless(shown)


@given(st.text(st.characters(exclude_categories=["Cc"])))
def test_plain_text_is_untouched(text: str) -> None:
    """Every character that is no control character stays where it is."""
    assert harmless(text) == text


def test_beginnings_of_strings_without_an_end_take_no_time() -> None:
    """A megabyte of them, which an app may print as one line, is gone through once."""
    assert harmless("\x9d" * (1 << 20) + "a") == "a"
