"""Which ended apps a submit forgets: by age, by size, none that runs or that an engine may still read."""

from __future__ import annotations

import json
import os
import time
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.errors import InvalidConfigError
from torchx_core.schedulers.option_values import RETENTION_VARIABLE, Retention, retention
from torchx_core.schedulers.retention import (
    FILE,
    INTERVAL_S,
    SPARED_S,
    Kept,
    doomed,
    overdue,
)

DAY_S = 86400.0
NOW = 1e9
KEEP = Retention(30 * DAY_S, 1000)


@st.composite
def sessions(draw: st.DrawFn) -> list[Kept]:
    """Draw the apps of a session."""
    ages_s = draw(st.lists(st.floats(0, 60 * DAY_S), max_size=8))
    return [
        Kept(str(i), draw(st.booleans()), NOW - age_s, draw(st.integers(0, 800)))
        for i, age_s in enumerate(ages_s)
    ]


@given(sessions())
def test_what_goes_and_what_stays(apps: list[Kept]) -> None:
    """Nothing that runs or is fresh goes; what stays is within the bounds as far as that allows."""
    gone = doomed(apps, KEEP, NOW)
    left = [app for app in apps if app.name not in gone]
    assert all(app.has_ended and NOW - app.changed_at > SPARED_S for app in apps if app.name in gone)
    may_go = [app for app in left if app.has_ended and NOW - app.changed_at > SPARED_S]
    assert not [app for app in may_go if NOW - app.changed_at > KEEP.max_age_s]
    assert not may_go or sum(app.size_bytes for app in left) <= KEEP.max_bytes
    too_old = {app.name for app in apps if NOW - app.changed_at > KEEP.max_age_s}
    for_size = [app for app in apps if app.name in gone and app.name not in too_old]
    assert all(app.changed_at <= other.changed_at for app in for_size for other in may_go)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Retention(30 * DAY_S, 1e10)),
        ("7d", Retention(7 * DAY_S, inf)),
        ("2GB", Retention(inf, 2e9)),
        (" 1w , 500MB", Retention(7 * DAY_S, 5e8)),
        ("off", None),
    ],
)
def test_what_is_said(monkeypatch: pytest.MonkeyPatch, text: str, expected: Retention | None) -> None:
    """An age, a size, both, or nothing at all; the option counts before the variable."""
    monkeypatch.setenv(RETENTION_VARIABLE, text)
    assert retention({}) == expected
    monkeypatch.setenv(RETENTION_VARIABLE, "3d")
    assert retention({"retention": text}) == expected
    assert retention({"retention": None}) == Retention(3 * DAY_S, inf)


@pytest.mark.parametrize("text", ["30", "never", "30d,,10GB", "30d;10GB", "-1d", "0"])
def test_what_it_cannot_say(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A number without a unit may be days, seconds or bytes."""
    monkeypatch.setenv(RETENTION_VARIABLE, text)
    with pytest.raises(InvalidConfigError, match=r"^\$TORCHX_RETENTION: it must be .*30d,10GB, or off"):
        retention({})


def _app(session: Path, name: str, *, age_days: float, size: int, ended: bool = True) -> None:
    directory = session / name
    directory.mkdir(parents=True)
    (directory / "log").write_bytes(b"x" * size)
    if ended:
        (directory / "final.json").write_text("{}")
    then = time.time() - age_days * DAY_S
    os.utime(directory, (then, then))


def _later(session: Path) -> None:
    """Have the last look be longer ago than the next one is due."""
    then = time.time() - INTERVAL_S - 1
    os.utime(session / FILE, (then, then))


def test_a_session_is_scanned_once_an_hour(tmp_path: Path) -> None:
    """Who comes within the hour does nothing."""
    _app(tmp_path, "old", age_days=31, size=1)
    _app(tmp_path, "runs", age_days=31, size=1, ended=False)
    _app(tmp_path, ".new-1", age_days=31, size=1)
    assert overdue(str(tmp_path), KEEP) == ["old"]
    assert overdue(str(tmp_path), KEEP) == []
    _later(tmp_path)
    assert overdue(str(tmp_path), KEEP) == ["old"]


def test_the_size_of_an_ended_app_is_measured_once(tmp_path: Path) -> None:
    """Until something in its directory changes; what runs is measured each time."""
    _app(tmp_path, "a", age_days=9, size=100)
    _app(tmp_path, "b", age_days=8, size=100)
    _app(tmp_path, "runs", age_days=8, size=100, ended=False)
    keep = Retention(inf, 50_000)
    assert overdue(str(tmp_path), keep) == []
    sizes = json.loads((tmp_path / FILE).read_text())["sizes"]
    assert sorted(sizes) == ["a", "b"]
    (tmp_path / "a" / "log").write_bytes(b"x" * 60_000)
    _later(tmp_path)
    assert overdue(str(tmp_path), keep) == []
    (tmp_path / "runs" / "log").write_bytes(b"x" * 60_000)
    _later(tmp_path)
    assert overdue(str(tmp_path), keep) == ["a", "b"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version":1,"sizes":{"a":[1,2],"b":"x"}}', "\0"])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    """It is written anew."""
    _app(tmp_path, "a", age_days=31, size=1)
    (tmp_path / FILE).write_text(content)
    _later(tmp_path)
    assert overdue(str(tmp_path), KEEP) == ["a"]
    assert list(json.loads((tmp_path / FILE).read_text())["sizes"]) == ["a"]
