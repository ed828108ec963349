"""Lengths of time, sizes and moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.quantities import (
    format_duration,
    format_size,
    parse_duration,
    parse_moment,
    parse_size,
)

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("500ms", 0.5),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("7d", 604800),
        ("2w", 1209600),
        (" 1H 30M ", 5400),
        (".5h", 1800),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    """Units may be put together and written in any case; a bare number is seconds."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "x", "7x", "-5s", "5 10", "1h30", "inf", "nan", "1e3", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """The message shows what would be one."""
    with pytest.raises(ValueError, match="expected for example 90s, 5m, 1h30m or 7d"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("100", 100), ("100b", 100), ("2GB", 2 * 10**9), ("2 GiB", 2 << 30), ("1.5kb", 1500)],
)
def test_a_size_is_read(text: str, size: int) -> None:
    """Decimal units and binary ones are told apart."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "2G", "GB", "-1GB", "1GB2MB", "two"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """``2G`` is refused because it means two things."""
    with pytest.raises(ValueError, match="expected for example 500MB, 2GB or 2GiB"):
        parse_size(text)


def test_a_moment_is_a_time_or_how_long_ago() -> None:
    """Both forms name a moment with a time zone."""
    assert parse_moment("10m", NOW) == NOW - timedelta(minutes=10)
    assert parse_moment("2026-11-21T15:00:00+01:00", NOW) == NOW
    assert parse_moment("2026-11-21T14:00", NOW).tzinfo is not None


@pytest.mark.parametrize("text", ["", "yesterday", "25:00", "999999999999d"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    """The message shows both forms."""
    with pytest.raises(ValueError, match="10m for ten minutes ago"):
        parse_moment(text, NOW)


@given(st.floats(min_value=0, max_value=1e9))
def test_a_duration_is_shown_shortly(seconds: float) -> None:
    """Whatever it is, it is short, and close to the truth when read again."""
    text = format_duration(seconds)
    assert len(text) <= 10
    assert parse_duration(text) == pytest.approx(seconds, rel=0.1, abs=0.06)


@given(st.integers(min_value=0, max_value=10**15))
def test_a_size_is_shown_shortly(size: int) -> None:
    """Whatever it is, it is short, and close to the truth when read again."""
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.06)
