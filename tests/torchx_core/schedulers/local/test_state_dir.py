"""A state directory that is somebody else's, and names and texts that no system takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from damage import verbs
from local_apps import app_of

from torchx_core import AppState, Runner, get_runner
from torchx_core.errors import (
    InvalidAppError,
    InvalidConfigError,
    InvalidInputError,
    InvalidRunConfigException,
)
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.locks import locked

Submit: TypeAlias = Callable[..., str]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to somebody else: needs root")


@needs_root
@pytest.mark.parametrize("level", ["", "local_cwd", "local_cwd/s"])
def test_nothing_new_is_written_to_a_state_directory_of_somebody_else(state_dir: Path, level: str) -> None:
    """What writes or deletes is refused, and the error says whose it is and what to do; a look is not."""
    (state_dir / level).mkdir(parents=True)
    os.chown(state_dir / level, 4242, 4242)
    with get_runner("s", state_dir=str(state_dir)) as runner:
        for name, verb in verbs(runner, "local_cwd://s/one", "r").items():
            if name.startswith(("prune", "delete")):
                with pytest.raises(InvalidConfigError, match=r"belongs to user 4242, .*TORCHX_STATE_DIR"):
                    verb()
        with pytest.raises(InvalidConfigError, match=r"belongs to user 4242, .*TORCHX_TRUST_STATE_DIR=1"):
            runner.run(app_of("true"), "local_cwd")
        assert runner.list("local_cwd") == []
        assert runner.status("local_cwd://s/one") is None


@pytest.mark.parametrize("mode", [0o777, 0o2777, pytest.param(0o700, marks=needs_root)])
def test_an_app_that_runs_there_is_served(
    runner: Runner, submit: Submit, state_dir: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status, lines, owner and cancel work, and the same submit again; another app needs trust."""
    handle = submit("sh", "-c", "echo up; exec sleep 1000", app_id="one")
    state_dir.chmod(mode)
    if mode == 0o700:
        os.chown(state_dir, 4242, 4242)
    batches = runner.follow(handle)
    assert next(line.text for batch in batches for line in batch.lines()) == "up"
    assert submit("sh", "-c", "echo up; exec sleep 1000", app_id="one") == handle
    assert runner.take_over(handle, "me")
    assert runner.cancel(handle, grace_s=0) == CancelOutcome.REQUESTED
    status = runner.wait(handle, timeout_s=240)
    assert status
    assert status.state == AppState.CANCELLED
    with pytest.raises(InvalidConfigError, match="TORCHX_TRUST_STATE_DIR"):
        submit("true", app_id="two")
    monkeypatch.setenv("TORCHX_TRUST_STATE_DIR", "1")
    status = runner.wait(submit("true", app_id="two"), timeout_s=240)
    assert status
    assert status.state == AppState.SUCCEEDED
    state_dir.chmod(0o1777)
    monkeypatch.delenv("TORCHX_TRUST_STATE_DIR")
    if mode != 0o700:  # like /tmp, where all keep their own
        runner.delete(handle)


@needs_root
def test_what_root_writes_there_its_user_can_read(runner: Runner, submit: Submit, state_dir: Path) -> None:
    """An operator cancels a user's app: the user's supervisor and workers must see by whom and why."""
    handle = submit("sh", "-c", "trap '' TERM; echo up; while :; do sleep 1000; done", app_id="one")
    assert next(runner.log_lines(handle, "r", should_tail=True)) == "up\n"
    app_dir = state_dir / "local_cwd" / "s" / "one"
    os.chown(app_dir, 4242, 4343)
    assert runner.take_over(handle, "operator")
    assert runner.cancel(handle, grace_s=60) == CancelOutcome.REQUESTED
    runner.cancel(handle, grace_s=0)
    runner.wait(handle, timeout_s=240)
    written = [(app_dir / name).stat() for name in ("owner.json", "owner.lock", "cancel.json", "cancel.lock")]
    assert [(found.st_uid, found.st_gid) for found in written] == [(4242, 4343)] * 4


@needs_root
def test_root_gives_nobody_a_file_that_was_there(tmp_path: Path) -> None:
    """A user who puts a link to another's file into his directory does not get that file."""
    (tmp_path / "secret").touch()
    (tmp_path / "app").mkdir()
    os.chown(tmp_path / "app", 4242, 4242)
    os.link(tmp_path / "secret", tmp_path / "app" / "owner.lock")
    with locked(str(tmp_path / "app" / "owner.lock")):
        assert (tmp_path / "secret").stat().st_uid == os.geteuid()


def test_what_we_make_is_ours_alone_whatever_the_umask(tmp_path: Path) -> None:
    """Directories for records are private also where the umask would open them."""
    before = os.umask(0)
    try:
        with get_runner("s", state_dir=str(tmp_path / "a" / "b")) as runner:
            status = runner.wait(runner.run(app_of("true"), "local_cwd"), timeout_s=240)
            assert status
            assert status.state == AppState.SUCCEEDED
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0


def test_a_session_that_is_no_text_is_refused(state_dir: Path) -> None:
    """Half a character in a session's name is an error that quotes it."""
    with (
        get_runner("\ud800", state_dir=str(state_dir)) as runner,
        pytest.raises(InvalidInputError, match="ud800"),
    ):
        runner.list("local_cwd")


def test_a_state_directory_that_is_no_path_is_refused() -> None:
    """A NUL byte in the state directory is an error that quotes it."""
    with get_runner("s", state_dir="/a\0b") as runner, pytest.raises(InvalidInputError, match="NUL"):
        runner.list("local_cwd")


@pytest.mark.parametrize("text", ["a\0b", "half \ud800"])
def test_what_no_program_can_be_given_is_refused_at_the_dry_run(runner: Runner, text: str) -> None:
    """Texts that cannot be passed on are refused before anything is submitted, with their place."""
    for role in ({"env": {"A": text}}, {"env": {text: "a"}}, {"image": text}):
        with pytest.raises(InvalidAppError, match=r"env|image"):
            runner.dryrun(app_of("true", **role), "local_cwd")
    with pytest.raises(InvalidAppError, match=r"args\[0\]"):
        runner.dryrun(app_of("true", text), "local_cwd")
    with pytest.raises(InvalidRunConfigException, match="log_dir"):
        runner.dryrun(app_of("true"), "local_cwd", {"log_dir": text})
