from __future__ import annotations

from configparser import ConfigParser
from configparser import Error as ConfigParserError

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from torchx_core.config.ini import read_ini
from torchx_core.errors import InvalidConfigError

LINES = st.lists(
    st.sampled_from(
        [
            *("[a]", " [b]", "[a] # no comment", "[]", "[a", "[DEFAULT]"),
            *("x = 1", "  x : 2", "y=a=b:c", "y =", "= 1", "z", "x  =  spaced  ", "\ty\t=\ttab"),
            *("", "   ", "# comment", "  ; comment", "    more", "\tmore = 1", " [more]"),
            *("p = 50%%", "p = 5%", "p = %(x)s", "p = %%(x)s", "p = %", " 100%"),
            *("u = é\x0b\u2028\x85ü", "v = a\rw = b"),
        ]
    ),
    max_size=12,
)


class CaseSensitive(ConfigParser):
    """As TorchX uses it."""

    def optionxform(self, optionstr: str) -> str:
        """Leave the name as it is."""
        return optionstr


def texts(source: str) -> dict[str, dict[str, str]]:
    """What is read, without the places."""
    sections = read_ini(source, "file")
    return {name: {k: s.text for k, s in each.settings.items()} for name, each in sections.items()}


def stdlib(source: str) -> dict[str, dict[str, str]]:
    """What TorchX's reader makes of it."""
    parser = CaseSensitive()
    parser.read_string(source.replace("\r\n", "\n").replace("\r", "\n"))  # as open() does
    return {name: dict(parser.items(name)) for name in parser.sections()}


@given(LINES)
@example(["[a]", "x = 1", "", "  more", "", "# comment", "  more", "y = 2"])
@example(["[a]", "  x = 1", " y = 2", "  more"])
def test_what_configparser_reads_is_read_the_same_or_refused(lines: list[str]) -> None:
    """Refused are only references to other options; sections named DEFAULT are not special."""
    source = "\n".join(lines)
    try:
        expected = stdlib(source)
    except ConfigParserError:
        return
    if "[DEFAULT]" in source:
        return
    try:
        actual = texts(source)
    except InvalidConfigError:
        assert "%(" in source
    else:
        assert actual == expected


@given(LINES)
def test_what_configparser_refuses_is_refused(lines: list[str]) -> None:
    """Except for percent signs that stand for themselves."""
    source = "\n".join(lines)
    if "%" in source or "[DEFAULT]" in source:
        return
    try:
        stdlib(source)
    except ConfigParserError:
        with pytest.raises(InvalidConfigError):
            texts(source)


@given(st.text("[]=:#;% \t\r\nab", max_size=30))
def test_any_text_is_read_or_refused_with_a_line(source: str) -> None:
    """Nothing else is ever raised, and the line is one of the text's."""
    line: int | None = 1
    try:
        read_ini(source, "file")
    except InvalidConfigError as err:
        line = err.line
    assert line in range(1, source.count("\n") + source.count("\r") + 2)


def test_a_percent_sign_stands_for_itself() -> None:
    """Doubled or not; TorchX's reader fails on a single one."""
    assert texts("[a]\nx = 5%\ny = 5%%\nz = %d%%(s)") == {"a": {"x": "5%", "y": "5%", "z": "%d%(s)"}}


def test_places_are_those_of_the_first_line() -> None:
    """Sections and options know where they begin, whatever stands between them."""
    sections = read_ini("# c\n\n[a]\nx = 1\n  2\r\n\r\ny: 3\n[b]", "f")
    assert [str(s.origin) for s in sections.values()] == ["f:3", "f:8"]
    assert {k: str(s.origin) for k, s in sections["a"].settings.items()} == {"x": "f:4", "y": "f:7"}


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("x = 1", 1, "f:1: no section yet: 'x = 1'; expected a line [section] before it"),
        ("[a]\nx", 2, "f:2: neither a section nor an option: 'x'; expected option = value"),
        ("[a]\n= 1", 2, "f:2: neither a section nor an option: '= 1'; expected option = value"),
        ("[a\n", 1, "f:1: no section yet: '[a'; expected a line [section] before it"),
        ("[a]\n[b]\n[a]", 3, "f:3: section [a] begins twice, first in line 1; join the two"),
        ("[a]\nx=1\ny=1\nx=2", 4, "f:4: option x of [a] is set twice, first in line 2"),
        (
            "[a]\ny=1\nx = %(y)s/z",
            3,
            (
                "f:3: '%(y)s/z' stands for the value of another option, which is not supported;"
                " write the value itself, or %% for a percent sign"
            ),
        ),
    ],
)
def test_errors(source: str, line: int, message: str) -> None:
    """Each names file and line, quotes what is wrong and says what to write."""
    with pytest.raises(InvalidConfigError) as caught:
        read_ini(source, "f")
    assert (caught.value.source, caught.value.line, str(caught.value)) == ("f", line, message)
