"""Apps that have ended, or run until the test lets them go, in a state directory of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from torchx_core import Runner, get_runner
from torchx_core.specs import is_terminal


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """Return a runner, and end what the test leaves running."""
    with get_runner(state_dir=str(tmp_path / "state")) as runner:
        yield runner
        for app in runner.list("local_cwd"):
            if not is_terminal(app.state):
                runner.cancel(app.app_handle, grace_s=0)
                runner.wait(app.app_handle, timeout_s=240)
