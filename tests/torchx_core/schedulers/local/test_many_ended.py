"""A list of ended apps does not read each record again, and says what their records would."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from local_apps import app_of, wait_until_unserved

from torchx_core import AppState, Runner
from torchx_core.errors import InvalidInputError
from torchx_core.schedulers import ended
from torchx_core.testing import wait_until

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


ROW = '"app00":[1,2,4,"app",1.0]'
DAMAGED = [
    "",
    "[]",
    '{"version":1,"apps":{"app00":[1,2,4,"app",1.0]}}',
    '{"version":2,"apps":{\n\n}}',
    '{"version":2,"apps":{\n}}',
    f'{{"version":2,"apps":{{\n{ROW}',
    f'{{"version":2,"apps":{{\n{ROW},\n"app01":\n"app02\n,\n{{}}\n}}}}',
    '{"version":3,"apps":{\n}}',
    "\udcff",
]


def test_a_damaged_file_is_as_good_as_none(runner: Runner, session: Path) -> None:
    """It is written anew from the records."""
    before = runner.list("local_cwd")
    spec = (session / IDS[0] / "spec.json").read_bytes()
    for content in DAMAGED:
        (session / ended.FILE).write_text(content, errors="surrogateescape")
        assert runner.list("local_cwd") == before, content
        (session / IDS[0] / "spec.json").write_text("{")
        assert runner.list("local_cwd") == before, content
        (session / IDS[0] / "spec.json").write_bytes(spec)


DAMAGED_ROWS = [
    "",
    "null",
    "[]",
    "[0,0]",
    '[0,0,4,"app",1e999]',
    '[0,0,[4],"app",1]',
    '[0,0,3,"app",1]',
    "[" * 9999,
]


def test_a_damaged_row_is_read_from_the_record(runner: Runner, session: Path) -> None:
    """Also where it is of the directory that is there."""
    before = runner.list("local_cwd")
    found = (session / IDS[0]).stat()
    content = (session / ended.FILE).read_text()
    for row in DAMAGED_ROWS:
        row_of_it = row.replace("[0,0", f"[{found.st_ino},{found.st_mtime_ns}", 1)
        lines = [f'"{IDS[0]}":{row_of_it},' if IDS[0] in line else line for line in content.split("\n")]
        (session / ended.FILE).write_text("\n".join(lines))
        assert runner.list("local_cwd") == before, row
        assert runner.list("local_cwd", begins=IDS[0]) == before[:1], row


def test_some_apps_are_those_that_all_would_be(runner: Runner, session: Path) -> None:
    """The newest, those of some name, those that have not ended, of apps that the file knows and others."""
    assert session.is_dir()
    handle = runner.run(app_of("sleep", "643.1"), "local_cwd", app_id="app-live")
    wait_until(lambda: runner.list("local_cwd")[-1].state is AppState.RUNNING, timeout_s=240)
    apps = runner.list("local_cwd")
    assert [app.app_id for app in apps] == [*IDS, "app-live"]
    assert runner.list("local_cwd", newest=3) == apps[-3:]
    assert runner.list("local_cwd", newest=99) == apps
    assert runner.list("local_cwd", begins="app1") == [app for app in apps if app.app_id.startswith("app1")]
    assert runner.list("local_cwd", begins="app0", newest=2) == apps[8:10]
    assert [app.app_id for app in runner.list("local_cwd", live=True)] == ["app-live"]
    assert runner.list("local_cwd", live=True, begins="app1") == []
    with pytest.raises(InvalidInputError, match="newest must be at least 1: 0"):
        runner.list("local_cwd", newest=0)
    runner.cancel(handle, grace_s=0)
    runner.wait(handle)
    assert runner.list("local_cwd", live=True) == []


def test_a_live_app_with_the_id_of_an_ended_one_is_live(runner: Runner, session: Path) -> None:
    """The file still tells of the one that is gone."""
    runner.delete(f"local_cwd://s/{IDS[3]}")
    handle = runner.run(app_of("sleep", "643.1"), "local_cwd", app_id=IDS[3])
    assert IDS[3] in (session / ended.FILE).read_text()
    assert [app.app_id for app in runner.list("local_cwd", live=True)] == [IDS[3]]
    assert [app.app_id for app in runner.list("local_cwd", newest=1)] == [IDS[3]]
    runner.cancel(handle, grace_s=0)
    runner.wait(handle)


def test_of_ended_apps_only_those_are_read_that_are_shown(
    runner: Runner, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand cost little more than a look at each directory."""
    assert session.is_dir()
    read: list[str] = []

    def loads(text: str, real: Callable[[str], object] = json.loads) -> object:
        read.append(text)
        return real(text)

    monkeypatch.setattr(json, "loads", loads)
    assert runner.list("local_cwd", live=True) == []
    assert read == []
    assert [app.app_id for app in runner.list("local_cwd", newest=2)] == IDS[-2:]
    assert len(read) == 2


def test_something_else_in_the_files_place(runner: Runner, session: Path) -> None:
    """Nobody waits for it, and the list is right."""
    before = runner.list("local_cwd")
    path = session / ended.FILE
    path.unlink()
    os.mkfifo(path)
    assert runner.list("local_cwd") == before
    path.unlink()
    path.symlink_to(path.name)
    assert runner.list("local_cwd") == before
    path.unlink()
    path.mkdir()
    assert runner.list("local_cwd") == before


def test_what_was_deleted_is_forgotten(runner: Runner, session: Path) -> None:
    """A file of thousands does not stay behind where they were pruned."""
    assert IDS[0] in (session / ended.FILE).read_text()
    assert len(runner.scheduler("local_cwd").prune(max_count=0)) == len(IDS)
    assert runner.list("local_cwd") == []
    assert IDS[0] not in (session / ended.FILE).read_text()
