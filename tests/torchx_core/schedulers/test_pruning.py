"""Which apps are forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core import AppDef, Role
from torchx_core.errors import AppNotTerminalError
from torchx_core.schedulers import ListAppResponse
from torchx_core.schedulers.pruning import surplus
from torchx_core.specs import AppState
from torchx_core.testing import fake_runner

Row = tuple[ListAppResponse, int]


def row(name: str, state: AppState = AppState.SUCCEEDED, *, at: float = 0.0, size: int = 0) -> Row:
    """Return an app and its size."""
    return ListAppResponse(app_id=name, state=state, submitted_at=at), size


def doomed(
    rows: list[Row], *, age: float | None = None, count: int | None = None, size: int | None = None
) -> list[str]:
    """Return what is deleted at second 100."""
    return surplus(rows, max_age_s=age, max_count=count, max_bytes=size, now=100.0)


def test_no_bound_deletes_nothing() -> None:
    """Without a bound nothing is deleted."""
    assert doomed([row("a"), row("b")]) == []


def test_age() -> None:
    """What was submitted longer ago than the bound goes."""
    assert doomed([row("old", at=10), row("new", at=95)], age=50) == ["old"]


def test_count() -> None:
    """The oldest go until the number fits."""
    assert doomed([row("a"), row("b"), row("c")], count=1) == ["a", "b"]


def test_size() -> None:
    """The oldest go until the size fits."""
    assert doomed([row("a", size=5), row("b", size=5), row("c", size=5)], size=7) == ["a", "b"]


def test_running_apps_stay_and_count() -> None:
    """A running app is never deleted, and takes room from the others."""
    assert doomed([row("runs", AppState.RUNNING), row("a"), row("b")], count=1) == ["a", "b"]


@given(
    st.lists(st.tuples(st.sampled_from(list(AppState)), st.floats(0, 100), st.integers(0, 50)), max_size=12),
    st.none() | st.integers(0, 12),
    st.none() | st.integers(0, 300),
)
def test_the_bounds_hold_and_nothing_alive_is_touched(
    apps: list[tuple[AppState, float, int]], count: int | None, size: int | None
) -> None:
    """Afterwards every bound holds unless only apps that are not terminal are left."""
    rows = [row(str(i), state, at=at, size=n) for i, (state, at, n) in enumerate(apps)]
    gone = set(doomed(rows, count=count, size=size))
    left = [(app, n) for app, n in rows if app.app_id not in gone]
    alive = [
        app for app, _ in left if app.state not in (AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED)
    ]
    fits = (count is None or len(left) <= count) and (size is None or sum(n for _, n in left) <= size)
    assert fits or len(alive) == len(left)
    assert all(
        app.state in (AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED)
        for app, _ in rows
        if app.app_id in gone
    )


def test_an_app_that_was_submitted_again_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has deleted it and used its id again; the others are deleted all the same."""
    runner = fake_runner()
    app = AppDef("app", [Role("r", image="", entrypoint="fake")])
    for app_id in ("again", "old"):
        runner.wait(runner.run(app, "fake", app_id=app_id))
    backend = runner.scheduler("fake")
    delete = backend.delete

    def delete_unless_again(app_id: str, *, force: bool = False) -> None:
        if app_id == "again":
            raise AppNotTerminalError("fake://fake/again", "RUNNING", "delete")
        delete(app_id, force=force)

    monkeypatch.setattr(backend, "delete", delete_unless_again)
    assert runner.prune("fake", max_count=0) == ["old"]
