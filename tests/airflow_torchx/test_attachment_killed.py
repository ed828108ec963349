from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from torchx_core.runner import get_runner
from torchx_core.specs import AppState

LINES = 3000
KILLS = 10

TRY = """
import json, os, sys
from pathlib import Path
from local_apps import app_of
from task_tries import make_try
from airflow_torchx._attachment import Attachment
from airflow_torchx._record import Record
from torchx_core.launch import AppRequest
from torchx_core.runner import get_runner
from torchx_core.schedulers import LogLines

folder, number, lines = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
WRITER = (
    "import sys, time\\n"
    "for i in range(int(sys.argv[1])):\\n"
    "    print(i, flush=True)\\n"
    "    time.sleep(0.001)\\n"
)

class FileMemory:
    def salt(self, this_try):
        return ""
    def load(self):
        file = folder / "record"
        return Record.from_json(json.loads(file.read_text()), "file") if file.exists() else None
    def save(self, record):
        (folder / "new").write_text(json.dumps(record.to_json()))
        os.replace(folder / "new", folder / "record")

class Log:
    def __init__(self):
        self.fd = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    def write(self, event):
        if isinstance(event, LogLines):
            os.write(self.fd, "".join(line + "\\n" for line in event.lines).encode())
    def tick(self):
        pass
    def say(self, message):
        pass

with get_runner("s") as runner:
    request = AppRequest(app=app_of(sys.executable, "-c", WRITER, lines), scheduler="local_cwd", cfg={})
    this_try = make_try(number=number, generation=99)
    attachment = Attachment(runner, FileMemory(), this_try, lambda deadline: request, Log(), lambda _: None)
    attachment.attach()
    attachment.follow()
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_tries_killed_at_random_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """However often a try is killed, one app runs, and the log has every line, in order but for repeats."""
    monkeypatch.setenv("TORCHX_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    moments = random.Random(seed)
    for number in range(1, KILLS + 1):
        one = _start(tmp_path, number)
        try:
            one.wait(moments.uniform(0.1, 0.8))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
    assert _start(tmp_path, KILLS + 1).wait(100) == 0

    shown = [int(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert set(shown) == set(range(LINES))
    assert all(after <= before + 1 for before, after in pairwise(shown))
    with get_runner("s") as runner:
        assert [app.state for app in runner.list("local_cwd")] == [AppState.SUCCEEDED]


def _start(folder: Path, number: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", TRY, str(folder), str(number), str(LINES)])
