"""Colours that everybody can read, and none for who wants none."""

from __future__ import annotations

import io

import pytest

from torchx_core.cli.lines import COLOURS
from torchx_core.cli.output import Output
from torchx_core.cli.styles import BAD, BOLD, DIM, GOOD, READABLE, STATE_STYLES, WARN

LEVELS = (0, 95, 135, 175, 215, 255)
STYLES = {*COLOURS, *STATE_STYLES.values(), BAD, DIM, GOOD, WARN}


class Tty(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def painted(style: str, **environ: str) -> str:
    """Return what a terminal gets for a word of that style."""
    return Output(Tty(), Tty(), environ).paint("word", style)


def rgb(number: int) -> tuple[int, int, int]:
    """Return one of the 240 colours that are the same on every terminal that has 256."""
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return grey, grey, grey
    red, green, blue = (number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6
    return LEVELS[red], LEVELS[green], LEVELS[blue]


def luminance(number: int) -> float:
    """Return how bright it is, as the Web Content Accessibility Guidelines define it."""
    parts = [c / 255 for c in rgb(number)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("style", sorted(STYLES))
def test_every_style_can_be_read_on_black_and_on_white(style: str) -> None:
    """By a contrast of 3.6 at least; of 4.58 at most, which is all that both can have."""
    (shade,) = [READABLE[each] for each in style.split(";") if each != BOLD]
    light = luminance(int(shade.removeprefix("38;5;")))
    assert min(1.05 / (light + 0.05), (light + 0.05) / 0.05) >= 3.6


def test_replicas_have_shades_of_their_own() -> None:
    """Ten of them."""
    assert len({READABLE[colour] for colour in COLOURS}) == len(COLOURS)


@pytest.mark.parametrize(
    "environ",
    [
        {"TERM": "xterm-256color"},
        {"TERM": "tmux-256color"},
        {"TERM": "xterm", "COLORTERM": "truecolor"},
        {"TERM": "xterm", "WT_SESSION": "0-0"},
    ],
    ids=str,
)
def test_a_terminal_with_256_colours_gets_readable_shades(environ: dict[str, str]) -> None:
    """Windows Terminal is one, whatever TERM says."""
    assert painted(BAD, **environ) == "\x1b[1;38;5;160mword\x1b[0m"


def test_a_terminal_with_eight_colours_gets_its_own() -> None:
    """Such as the console of Linux."""
    assert painted(BAD, TERM="linux") == "\x1b[1;31mword\x1b[0m"


@pytest.mark.parametrize(
    "environ", [{"TERM": "xterm-256color", "NO_COLOR": "1"}, {"TERM": "dumb"}, {}], ids=str
)
def test_who_wants_no_colours_gets_none(environ: dict[str, str]) -> None:
    """Nor any other attribute."""
    assert painted(BAD, **environ) == "word"
