"""A state directory that is somebody else's, and names and texts that no system takes."""

from __future__ import annotations

import os
from pathlib import Path

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

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to somebody else: needs root")


@needs_root
@pytest.mark.parametrize("level", ["", "local_cwd", "local_cwd/s"])
def test_a_state_directory_of_somebody_else_is_refused(state_dir: Path, level: str) -> None:
    """Records that another user may write are neither read nor run, and the error says whose they are."""
    (state_dir / level).mkdir(parents=True)
    os.chown(state_dir / level, 4242, 4242)
    with get_runner("s", state_dir=str(state_dir)) as runner:
        for verb in verbs(runner, "local_cwd://s/one", "r").values():
            with pytest.raises(InvalidConfigError, match=r"belongs to user 4242, .*TORCHX_STATE_DIR"):
                verb()
        with pytest.raises(InvalidConfigError, match="belongs to user 4242"):
            runner.run(app_of("true"), "local_cwd")


def test_a_state_directory_that_anybody_may_change_is_refused(state_dir: Path) -> None:
    """A world-writable state directory is not used, unless it is one like /tmp, where all keep their own."""
    state_dir.mkdir()
    state_dir.chmod(0o777)
    with get_runner("s", state_dir=str(state_dir)) as runner:
        with pytest.raises(InvalidConfigError, match=r"can be changed by anybody \(mode 777\)"):
            runner.list("local_cwd")
        state_dir.chmod(0o1777)
        assert runner.list("local_cwd") == []


def test_what_we_make_is_ours_alone_whatever_the_umask(tmp_path: Path) -> None:
    """Directories for records are private also where the umask would open them."""
    before = os.umask(0)
    try:
        with get_runner("s", state_dir=str(tmp_path / "a" / "b")) as runner:
            status = runner.wait(runner.run(app_of("true"), "local_cwd"), timeout_s=60)
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
