"""A list of ended apps does not read each record again, and says what their records would."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from local_apps import app_of, wait_until_unserved

from torchx_core import AppState, Runner
from torchx_core.schedulers import ended

IDS = [f"app{i:02}" for i in range(ended.FEWEST)]


@pytest.fixture
def session(runner: Runner, state_dir: Path) -> Path:
    """A session of as many ended apps as are worth a file, listed once."""
    handles = [runner.run(app_of("true"), "local_cwd", app_id=app_id) for app_id in IDS]
    for handle, app_id in zip(handles, IDS, strict=True):
        runner.wait(handle)
        wait_until_unserved(state_dir, app_id)  # until then its directory may change, and is looked at again
    assert states(runner) == dict.fromkeys(IDS, AppState.SUCCEEDED)
    return state_dir / "local_cwd" / "s"


def states(runner: Runner) -> dict[str, AppState]:
    """Return what a list says of each app."""
    return {row.app_id: row.state for row in runner.list("local_cwd")}


def test_a_record_that_was_read_is_not_read_again(runner: Runner, session: Path) -> None:
    """It was the whole cost of a list; that the record is damaged since, `doctor` says and `status`."""
    before = runner.list("local_cwd")
    for app_id in IDS:
        (session / app_id / "spec.json").write_text("{")
    assert runner.list("local_cwd") == before
    assert [row.name for row in before] == ["app"] * len(IDS)


def test_an_app_that_took_an_ended_ones_id(runner: Runner, session: Path) -> None:
    """It is another app, whatever its directory's number is, and is listed as it is."""
    assert session.is_dir()
    old = {row.app_id: row for row in runner.list("local_cwd")}
    runner.delete(f"local_cwd://s/{IDS[0]}")
    handle = runner.run(app_of("sleep", "643.1"), "local_cwd", app_id=IDS[0])
    assert states(runner)[IDS[0]] in {AppState.SUBMITTED, AppState.RUNNING}
    runner.cancel(handle, grace_s=0)
    runner.wait(handle)
    new = {row.app_id: row for row in runner.list("local_cwd")}
    assert new[IDS[0]].state == AppState.CANCELLED
    assert new[IDS[0]].submitted_at != old[IDS[0]].submitted_at
    assert [new[app_id] for app_id in IDS[1:]] == [old[app_id] for app_id in IDS[1:]]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        '{"version": 2, "apps": {}}',
        '{"version": 1, "apps": []}',
        '{"version": 1, "apps": {"app00": null, "app01": [], "app02": ["a", 2, 3, 4, 5]}}',
        '{"version": 1, "apps": {"app00": [1, 2, [4], "app", 1.0], "app01": [1, 2, 3, "app", 1.0]}}',
        '{"version": 1, "apps": {"app00": [1, 2, 4, "app", 1e999], "app01": [1e999, 2, 4, "app", 1.0]}}',
        '{"apps": ' + "[" * 100_000,
    ],
)
def test_a_damaged_file_is_as_good_as_none(runner: Runner, session: Path, content: str) -> None:
    """It is written anew from the records."""
    before = runner.list("local_cwd")
    (session / ended.FILE).write_text(content)
    assert runner.list("local_cwd") == before
    (session / IDS[0] / "spec.json").write_text("{")
    assert runner.list("local_cwd") == before


@pytest.mark.parametrize("kind", ["pipe", "directory", "loop"])
def test_something_else_in_the_files_place(runner: Runner, session: Path, kind: str) -> None:
    """Nobody waits for it, and the list is right."""
    before = runner.list("local_cwd")
    path = session / ended.FILE
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to(path.name)
    assert runner.list("local_cwd") == before


def test_what_was_deleted_is_forgotten(runner: Runner, session: Path) -> None:
    """A file of thousands does not stay behind where they were pruned."""
    assert IDS[0] in (session / ended.FILE).read_text()
    assert len(runner.scheduler("local_cwd").prune(max_count=0)) == len(IDS)
    assert runner.list("local_cwd") == []
    assert IDS[0] not in (session / ended.FILE).read_text()
