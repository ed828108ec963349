"""What the tests of the local schedulers share: a runner of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from local_apps import app_of

from torchx_core import AppState, Runner, get_runner
from torchx_core.schedulers.local.zygote import IDLE_VARIABLE
from torchx_core.specs import CfgVal, is_terminal

Submit: TypeAlias = Callable[..., str]


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """Where the test's apps have their records."""
    return tmp_path / "state"


@pytest.fixture
def runner(state_dir: Path) -> Iterator[Runner]:
    """A runner that sees only the test's apps, and cancels what the test leaves running."""
    with get_runner("s", state_dir=str(state_dir)) as runner:
        yield runner
        for scheduler in ("local_cwd", "local_dir"):
            for app in runner.list(scheduler):
                if is_terminal(app.state) or app.state == AppState.UNKNOWN:
                    continue
                runner.cancel(app.app_handle, grace_s=0, reason="end of the test")
                runner.wait(app.app_handle, timeout_s=240)


@pytest.fixture
def no_zygote(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's apps have guardians that are started as programs, as where no zygote can be."""
    monkeypatch.setenv(IDLE_VARIABLE, "0")


@pytest.fixture
def submit(runner: Runner) -> Submit:
    """Submit a program as an app of one role."""

    def run(
        *argv: str, app_id: str | None = None, cfg: dict[str, CfgVal] | None = None, **role: object
    ) -> str:
        return runner.run(app_of(*argv, **role), "local_cwd", cfg, app_id=app_id)

    return run
