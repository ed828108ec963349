"""A program on this process's own streams ends with it, whenever a signal comes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from torchx_core.schedulers.attached import run_attached
from torchx_core.testing import wait_until


class Interrupted(Exception):
    """What the handler of a signal raises."""


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal whose handler raises."""

    def leave(_number: int, _frame: object) -> NoReturn:
        raise Interrupted

    before = signal.signal(request.param, leave)
    yield request.param
    assert signal.getsignal(request.param) is leave
    signal.signal(request.param, before)


def test_a_signal_while_the_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The program is there already, though nobody knows its process yet; it has heard a Ctrl-C itself."""

    class Starting(subprocess.Popen[bytes]):
        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            super().__init__(argv, **options)
            wait_until((tmp_path / "pid").exists, 240)
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Starting)
    pid_file = tmp_path / "pid"
    ctrl_c = number == signal.SIGINT
    script = f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep {'0.1' if ctrl_c else '600'}"
    if ctrl_c:
        assert run_attached(["sh", "-c", script]) == 0
    else:
        with pytest.raises(Interrupted):
            run_attached(["sh", "-c", script])
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()
