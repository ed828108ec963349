"""The command line in this process, with a state directory and a working directory of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from cli_apps import Cli, Done

from torchx_core import AppState, get_runner
from torchx_core.cli.program import run_program
from torchx_core.specs import is_terminal


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep the test's apps and files apart from all others, and end what it leaves running."""
    monkeypatch.setenv("TORCHX_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    with chdir(folder):  # left before the check for stray files, which `monkeypatch` would not be
        yield folder
    with get_runner() as runner:
        for app in runner.list("local_cwd"):
            if not is_terminal(app.state) and app.state is not AppState.UNKNOWN:  # a record torn on purpose
                runner.cancel(app.app_handle, grace_s=0)
                runner.wait(app.app_handle, timeout_s=240)


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """Carry out a command line in this process."""

    def carry_out(*args: str) -> Done:
        capfd.readouterr()
        code = run_program(args)
        captured = capfd.readouterr()
        return Done(code, captured.out, captured.err)

    return carry_out
