"""Files that cannot be read for a while are not damaged: who asks is told to ask again, who follows waits."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from damage import apply
from local_apps import app_of
from unreachable import refusals, unreachable

from torchx_core import AppState, Runner, get_runner
from torchx_core.errors import CorruptRecordError, RecordUnavailableError, StoredStateError
from torchx_core.schedulers.difference import comparable_request
from torchx_core.schedulers.local import LocalRequest
from torchx_core.schedulers.local.record import encode_record
from torchx_core.supervisor.reading import DamagedFile, is_there, read_bytes, read_part
from torchx_core.supervisor.records import LOCK, SPEC, dumps
from torchx_core.testing import wait_until

PASSING = (errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.EMFILE)
HANDLE = "local_cwd://s/bad"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runner, Path]]:
    """Two apps that have ended, and the directory of the one whose files are away below."""
    state = tmp_path_factory.mktemp("unreachable") / "state"
    with get_runner("s", state_dir=str(state)) as runner:
        for app_id in ("good", "bad"):
            handle = runner.run(app_of("echo", "hello"), "local_cwd", app_id=app_id)
            assert runner.wait(handle, timeout_s=240)
        yield runner, state / "local_cwd" / "s" / "bad"


@pytest.mark.parametrize("number", PASSING)
@pytest.mark.parametrize("name", ["", "spec.json", "final.json", "owner.lock", "owner.json"])
def test_a_file_that_is_away_is_not_damaged(ended: tuple[Runner, Path], name: str, number: int) -> None:
    """Each verb works or says that the same call may work later; nothing advises to delete the app."""
    runner, bad = ended
    with unreachable(bad / name if name else bad, number):
        refused = refusals(runner, HANDLE, "r")
        rows = {row.app_id: row for row in runner.list("local_cwd")}
    assert refused
    assert all(err.retryable and str(bad / name) in str(err) for err in refused)
    assert not any("delete" in str(err) for err in refused)
    assert rows["good"].state == AppState.SUCCEEDED
    if rows["bad"].state == AppState.UNKNOWN:
        assert str(bad / name) in rows["bad"].error
    else:
        assert name.startswith("owner")
    status = runner.status(HANDLE)
    assert status
    assert status.state == AppState.SUCCEEDED


def test_a_session_that_is_away_is_not_empty(ended: tuple[Runner, Path]) -> None:
    """A list of it is refused, rather than told as one without apps."""
    runner, bad = ended
    with unreachable(bad.parent, errno.EIO), pytest.raises(RecordUnavailableError, match="Input/output"):
        runner.list("local_cwd")


@pytest.mark.parametrize("name", ["", "combined.log", "journal.jsonl", "final.json", "alive", "timeline.bin"])
def test_a_follower_waits_for_files_that_are_away(
    runner: Runner, state_dir: Path, tmp_path: Path, name: str
) -> None:
    """Whatever cannot be opened for a while, every line comes once, and the end with it."""
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"echo one; read word <{go}; echo two; echo three"
    handle = runner.run(app_of("sh", "-c", script), "local_cwd", app_id="bad")
    app_dir = state_dir / "local_cwd" / "s" / "bad"
    place = app_dir / "log" / "r" / "0" / "0" / name if name == "combined.log" else app_dir / name
    batches = runner.follow(handle, tick_s=0.05)
    lines: list[str] = []
    if name not in ("", "alive", "timeline.bin"):  # those are open from the first line on
        while not lines:
            lines += [line.text for line in next(batches).lines()]
    with unreachable(place if name else app_dir, errno.EIO):
        go.write_text("go\n")
        wait_until((app_dir / "final.json").exists, 240)
        for _ in range(30):  # some that say nothing: it was tried again meanwhile
            lines += [line.text for line in next(batches).lines()]
    lines += [line.text for batch in batches for line in batch.lines()]
    assert lines == ["one", "two", "three"]


def test_a_read_that_fails_is_no_damage() -> None:
    """The kernel's own error of a read arrives, with the file's name."""
    path = f"/proc/{os.getpid()}/mem"  # regular, and its first page cannot be read
    with pytest.raises(OSError, match="mem") as caught:
        read_bytes(path)
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize("damage", ["directory", "FIFO", "link in a circle", "link to a device"])
def test_something_else_in_the_place_of_the_lock(runner: Runner, state_dir: Path, damage: str) -> None:
    """A submit that finds an app which nobody has started says what lies in the place of its lock."""
    info = runner.dryrun(app_of("true"), "local_cwd", app_id="bad")
    app_dir = state_dir / "local_cwd" / "s" / "bad"
    app_dir.mkdir(parents=True, mode=0o700)
    request = cast("LocalRequest", info.request)
    record = encode_record(comparable_request(request.app, request.cfg), request.plan, created_at=1.0)
    (app_dir / SPEC).write_bytes(dumps(record))
    apply(app_dir / LOCK, damage)
    with pytest.raises(CorruptRecordError, match=f"bad/lock.*delete --force {HANDLE}"):
        runner.schedule(info)
    with pytest.raises(StoredStateError):
        runner.status(HANDLE)
    runner.delete(HANDLE, force=True)
    assert not is_there(str(app_dir))


def test_what_may_not_be_read_is_damage(tmp_path: Path) -> None:
    """A link in a circle will not pass."""
    (tmp_path / "a").symlink_to(tmp_path / "a")
    with pytest.raises(DamagedFile):
        read_part(str(tmp_path / "a"), 0, 1)
