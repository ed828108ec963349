"""One command line is one request, from whatever shell it is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_terminal import in_terminal, torchx_core

from torchx_core import get_runner

ELSEWHERE = {
    "LOGLEVEL": "DEBUG",
    "TORCHX_PARENT_RUN_ID": "outer",
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "TZ": "UTC+5",
}
RUN = ("run", "--app-id", "one", "utils.sh", "echo", "hello")


def test_a_component_is_submitted_once_from_three_shells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cron job, a login in a terminal and an isolated Python without a home get one app, and its line."""
    for name, value in ELSEWHERE.items():
        monkeypatch.setenv(name, value)
    cron = torchx_core(*RUN, env={"HOME": str(tmp_path), "TERM": "", "TMPDIR": str(tmp_path)})
    assert (cron.returncode, cron.stdout) == (0, "local_cwd://torchx/one\nsh/0 hello\n")
    for name in ELSEWHERE:
        monkeypatch.delenv(name)
    with in_terminal(*RUN) as terminal:
        assert terminal.exit_code() == 0
        assert "sh/0 hello" in terminal.scrolled()
    command = [sys.executable, "-I", "-m", "torchx_core", *RUN]
    isolated = subprocess.run(command, cwd="/", umask=0o077, capture_output=True, text=True, check=True)
    assert isolated.stdout == cron.stdout
    with get_runner() as runner:
        assert [app.app_id for app in runner.list("local_cwd")] == ["one"]
