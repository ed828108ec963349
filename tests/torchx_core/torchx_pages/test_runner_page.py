"""TorchX's page of the runner: what it says beside what `test_same_answers` asks."""

from __future__ import annotations

import inspect
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from local_apps import app_of
from torchx_sides import MISSING, accepts, ours, theirs

from torchx_core import Runner, get_runner
from torchx_core.errors import UnknownReplicaError
from torchx_core.schedulers import ListAppResponse
from torchx_core.specs import AppDryRunInfo, AppState, UnknownAppException
from torchx_core.testing import FakeHost

SUBMIT = [("scheduler", MISSING), ("cfg", None), ("workspace", None), ("parent_run_id", None)]
SIGNATURES: dict[str, list[tuple[str, Any]]] = {
    "cancel": [("app_handle", MISSING)],
    "close": [],
    "describe": [("app_handle", MISSING)],
    "dryrun": [("app", MISSING), *SUBMIT],
    "dryrun_component": [("component", MISSING), ("component_args", MISSING), *SUBMIT],
    "list": [("scheduler", MISSING)],
    "log_lines": [
        ("app_handle", MISSING),
        ("role_name", MISSING),
        ("k", 0),
        ("regex", None),
        ("since", None),
        ("until", None),
        ("should_tail", False),
        ("streams", None),
    ],
    "run": [("app", MISSING), *SUBMIT],
    "run_component": [("component", MISSING), ("component_args", MISSING), *SUBMIT],
    "schedule": [("dryrun_info", MISSING)],
    "scheduler_backends": [],
    "scheduler_run_opts": [("scheduler", MISSING)],
    "status": [("app_handle", MISSING)],
    "stop": [("app_handle", MISSING)],
    "wait": [("app_handle", MISSING), ("wait_interval", 10)],
}


@pytest.mark.parametrize("method", SIGNATURES)
def test_the_runner_does_it_so(method: str) -> None:
    """By position or by name, with these defaults; as the installed TorchX does."""
    assert accepts(getattr(Runner, method), SIGNATURES[method])
    assert accepts(theirs(f"runner.Runner.{method}"), SIGNATURES[method])


def test_a_runner_is_made_of_factories() -> None:
    """With a name, defaults of components and parameters of schedulers."""
    parameters = [
        ("name", MISSING),
        ("scheduler_factories", MISSING),
        ("component_defaults", None),
        ("scheduler_params", None),
    ]
    assert accepts(Runner.__init__, parameters)


def test_a_runner_can_be_had() -> None:
    """With all schedulers; further parameters are theirs."""
    assert accepts(get_runner, [("name", None), ("component_defaults", None)])
    assert any(p.kind is p.VAR_KEYWORD for p in inspect.signature(get_runner).parameters.values())
    assert accepts(theirs("runner.get_runner"), [("name", None), ("component_defaults", None)])


def test_parameters_reach_every_scheduler() -> None:
    """By name."""
    seen: list[dict[str, object]] = []
    host = FakeHost()

    def factory(session: str, **params: object) -> object:
        seen.append({"session": session, **params})
        return host.scheduler(session)

    with Runner("mine", {"fake": factory}, scheduler_params={"a": 1}) as runner:
        runner.scheduler_run_opts("fake")
    assert seen == [{"session": "mine", "a": 1}]


def test_closing_closes_every_scheduler() -> None:
    """Once for each, and a second time is no error."""
    closed: list[str] = []
    host = FakeHost()

    def factory(session: str, **_params: object) -> object:
        scheduler = host.scheduler(session)
        scheduler.close = lambda: closed.append(session)  # type: ignore[method-assign]  # to see it
        return scheduler

    with Runner("mine", {"fake": factory}) as runner:
        runner.scheduler_run_opts("fake")
    runner.close()
    assert closed == ["mine"]


def test_the_name_is_in_all_handles(tmp_path: Path) -> None:
    """As their session; apps are listed with id, handle and state."""
    with get_runner("mine", state_dir=str(tmp_path)) as runner:
        handle = runner.run(app_of("true"), "local_cwd")
        runner.wait(handle)
        (listed,) = runner.list("local_cwd")
    assert handle.startswith("local_cwd://mine/")
    assert isinstance(listed, ListAppResponse)
    assert (listed.app_handle, listed.state) == (handle, AppState.SUCCEEDED)
    assert handle.endswith(listed.app_id)


def test_a_cancel_returns_before_the_app_has_ended(tmp_path: Path) -> None:
    """It is RUNNING until the scheduler has ended it, and then CANCELLED."""
    stubborn = app_of("sh", "-c", "trap 'sleep 0.5; exit 3' TERM; sleep 60 & echo ready; wait")
    with get_runner(state_dir=str(tmp_path)) as runner:
        handle = runner.run(stubborn, "local_cwd")
        assert next(runner.log_lines(handle, "r", should_tail=True)) == "ready\n"
        runner.cancel(handle)
        during = runner.status(handle)
        ended = runner.wait(handle)
    assert during is not None
    assert ended is not None
    assert (during.state, ended.state) == (AppState.RUNNING, AppState.CANCELLED)


@pytest.mark.parametrize("method", ["run", "run_component"])
def test_a_runner_of_ones_own_changes_how_apps_are_scheduled(method: str, tmp_path: Path) -> None:
    """By `schedule` alone: what runs apps and components calls it."""
    seen: list[AppDryRunInfo[object]] = []

    class Noting(Runner):
        def schedule(self, dryrun_info: AppDryRunInfo[object]) -> str:
            seen.append(dryrun_info)
            return super().schedule(dryrun_info)

    factories = {"local_cwd": ours("schedulers.local_scheduler.create_scheduler")}
    with Noting("mine", factories, scheduler_params={"state_dir": str(tmp_path)}) as runner:
        if method == "run":
            handle = runner.run(app_of("true"), "local_cwd")
        else:
            handle = runner.run_component("utils.echo", ["--msg", "x"], "local_cwd")
        runner.wait(handle)
    assert [info.scheduler for info in seen] == ["local_cwd"]


def test_a_dry_run_is_printed_readably(tmp_path: Path) -> None:
    """It shows what would run, and leaves no trace."""
    with get_runner(state_dir=str(tmp_path / "state")) as runner:
        info = runner.dryrun(app_of("echo", "hello"), "local_cwd")
        assert runner.list("local_cwd") == []
    assert '"hello"' in str(info)
    assert repr(info) == str(info)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("since_s", "until_s", "count"),
    [(None, None, 1), (-60, None, 1), (60, None, 0), (None, -60, 0), (None, 60, 1)],
)
def test_a_window_of_time_is_kept(
    tmp_path: Path, since_s: int | None, until_s: int | None, count: int
) -> None:
    """A scheduler need not; this one does."""
    now = datetime.now(UTC)
    since, until = (None if s is None else now + timedelta(seconds=s) for s in (since_s, until_s))
    with get_runner(state_dir=str(tmp_path)) as runner:
        handle = runner.run(app_of("echo", "x"), "local_cwd")
        runner.wait(handle)
        assert len(list(runner.log_lines(handle, "r", 0, None, since, until))) == count


def test_the_log_of_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    """UnknownAppException for an app, at once and not at the first line; a role has an error of its own."""
    with get_runner(state_dir=str(tmp_path)) as runner:
        with pytest.raises(UnknownAppException):
            runner.log_lines("local_cwd://torchx/nothing", "r")
        handle = runner.run(app_of("true"), "local_cwd")
        runner.wait(handle)
        with pytest.raises(UnknownReplicaError):
            runner.log_lines(handle, "nobody")


REGISTERED = """
from torchx_core.specs import AppDef, Role

def echo(msg: str) -> AppDef:
    \"\"\"Say it.

    Args:
        msg: what
    \"\"\"
    return AppDef("registered", [Role("r", "", entrypoint="echo", args=["registered", msg])])
"""


def test_registered_components_come_before_built_in_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the entry-point group ``torchx.components``; files are named by their path."""
    info = tmp_path / "team-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: team\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torchx.components]\nutils = team_components\n")
    (tmp_path / "team_components.py").write_text(REGISTERED)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with get_runner(state_dir=str(tmp_path / "state")) as runner:
        registered = runner.dryrun_component("utils.echo", ["--msg", "x"], "local_cwd")
        built_in = runner.dryrun_component("utils.touch", ["--file", "x"], "local_cwd")
        of_a_file = runner.dryrun_component(
            f"{tmp_path}/team_components.py:echo", ["--msg", "x"], "local_cwd"
        )
    assert [each.app and each.app.name for each in (registered, built_in, of_a_file)] == [
        "registered",
        "touch",
        "registered",
    ]


@pytest.mark.parametrize("name", ["wait", "status", "describe"])
def test_what_is_gone_is_none(name: str, tmp_path: Path) -> None:
    """An app that was deleted is as one that never was."""
    with get_runner(state_dir=str(tmp_path)) as runner:
        handle = runner.run(app_of("true"), "local_cwd")
        runner.wait(handle)
        runner.delete(handle)
        assert getattr(runner, name)(handle) is None
