"""Surroundings: where and by whom a request is made again does not make it another one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Generator
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest

from torchx_core.runner import Runner
from torchx_core.specs import AppDef
from torchx_core.testing.contract.base import ContractBase, NewRunner, texts
from torchx_core.testing.steps import Print

__all__ = ["SurroundingsContract"]

_SUBMIT = """
import pickle, sys
new_runner, app, backend, cfg = pickle.load(sys.stdin.buffer)
with new_runner() as runner:
    sys.stdout.write(runner.run(app, backend, cfg, app_id="one"))
"""
_LINE = "one line, été, $HOME"


class SurroundingsContract(ContractBase):
    """The first submit's surroundings count where the backend passes any on; later ones change nothing."""

    __test__ = False

    def test_the_surroundings_are_no_part_of_the_request(
        self, runner: Runner, other: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The same process with another environment, directory and umask gets the app that is there."""
        self.needs(runner, "submit_once")
        app = self.app(Print(_LINE))
        handle = self.run(runner, app, "one")
        for name, value in self._elsewhere(tmp_path).items():
            monkeypatch.setenv(name, value)
        with chdir(tmp_path), _umask(0o077):
            assert self.run(other, app, "one") == handle
        self.ran_once(runner, handle)

    def test_submitters_in_different_shells_share_one_app(
        self, runner: Runner, new_runner: NewRunner, tmp_path: Path
    ) -> None:
        """A cron job within another app submits, with an ASCII locale; others find its app."""
        self.needs(runner, "submit_once")
        self.needs(runner, "survives_submitter")
        app = self.app(Print(_LINE))
        handle = self._submitted_from(self._elsewhere(tmp_path), tmp_path, 0o077, new_runner, app)
        assert self._submitted_from({}, Path("/"), 0o002, new_runner, app) == handle
        assert self.run(runner, app, "one") == handle
        self.ran_once(runner, handle)

    def ran_once(self, runner: Runner, handle: str) -> None:
        """Check that one program ran; override where nothing really runs."""
        self.end(runner, handle)
        assert texts(runner.follow(handle)) == [_LINE]
        assert [row.app_id for row in runner.list(self.backend)] == ["one"]

    def _elsewhere(self, folder: Path) -> dict[str, str]:
        """Return what another user's shell, or the environment of another app, may say."""
        empty = folder / "elsewhere"
        empty.mkdir()
        env = dict.fromkeys(("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), str(empty))
        env |= {"PATH": f"{empty}{os.pathsep}{os.environ['PATH']}", "SHELL": "/bin/csh", "TERM": "dumb"}
        env |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "Asia/Kathmandu"}
        env |= {"USER": "somebody", "LOGNAME": "somebody", "LOGLEVEL": "DEBUG", "PYTHONUNBUFFERED": "1"}
        env |= {"TORCHX_JOB_ID": "local_cwd://s/outer", "TORCHX_PARENT_RUN_ID": "outer", "RANK": "3"}
        env |= {"TORCHX_INTERNAL_SESSION_ID": "s", "TORCHX_RANK0_HOST": "elsewhere", "TORCHX_ATTEMPT": "7"}
        env |= {"TORCHX_SCHEDULER": "elsewhere", "TORCHX_CFG_LOCAL_CWD": "grace_s=99", "TORCHX_TRACKERS": "t"}
        return {name: value for name, value in env.items() if name not in self.reached_by}

    def _submitted_from(
        self, env: dict[str, str], cwd: Path, umask: int, new_runner: NewRunner, app: AppDef
    ) -> str:
        """Submit from a process in these surroundings, without a terminal, and return the handle."""
        done = subprocess.run(
            [sys.executable, "-c", _SUBMIT],
            input=pickle.dumps((new_runner, app, self.backend, dict(self.cfg))),
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
            cwd=cwd,
            umask=umask,
            start_new_session=True,
            check=True,
        )
        return done.stdout.decode()


@contextmanager
def _umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
