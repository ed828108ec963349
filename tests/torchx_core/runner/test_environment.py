"""What every replica finds in its environment about its job."""

from __future__ import annotations

import pytest

from torchx_core import AppDef, Role
from torchx_core.runner.environment import inject_environment
from torchx_core.settings import ENV_TRACE_CONTEXT

PARENT = "TORCHX_PARENT_RUN_ID"


def injected(parent_run_id: str | None, **env: str) -> dict[str, str]:
    """Return what a role with these variables gets."""
    app = AppDef("app", [Role("r", "img", env=dict(env))])
    inject_environment(app, scheduler="fake", session="s", parent_run_id=parent_run_id)
    return app.roles[0].env


def test_the_job_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its handle, once the app id is known, and by its session."""
    for name in ENV_TRACE_CONTEXT:
        monkeypatch.delenv(name, raising=False)
    assert injected(None) == {"TORCHX_JOB_ID": "fake://s/${app_id}", "TORCHX_INTERNAL_SESSION_ID": "s"}


@pytest.mark.parametrize(
    ("in_app", "argument", "inherited", "expected"),
    [
        ("app", "argument", "inherited", "app"),
        (None, "argument", "inherited", "argument"),
        (None, None, "inherited", "inherited"),
        (None, None, None, None),
    ],
)
def test_the_parent_run(
    monkeypatch: pytest.MonkeyPatch,
    in_app: str | None,
    argument: str | None,
    inherited: str | None,
    expected: str | None,
) -> None:
    """The app's own word counts first, then the caller's, then the submitter's environment."""
    monkeypatch.delenv(PARENT, raising=False)
    if inherited:
        monkeypatch.setenv(PARENT, inherited)
    assert injected(argument, **({PARENT: in_app} if in_app else {})).get(PARENT) == expected


def test_the_submitters_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that has a trace hands it on; an app that has one of its own keeps it, whole."""
    monkeypatch.setenv("TRACEPARENT", "outer")
    monkeypatch.setenv("BAGGAGE", "a=b")
    handed_on = injected(None)
    assert (handed_on["TRACEPARENT"], handed_on["BAGGAGE"]) == ("outer", "a=b")
    own = injected(None, TRACEPARENT="own")
    assert own["TRACEPARENT"] == "own"
    assert "BAGGAGE" not in own
