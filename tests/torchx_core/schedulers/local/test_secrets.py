"""Nobody but its user can read what an app of a local scheduler was given and what it wrote."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_apps import app_of, cmdline, wait_until_unserved

from torchx_core import Runner
from torchx_core.testing import wait_until

VALUE = "sesame-of-this-test"


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The umask of a user who shares everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_no_process_has_a_secret_in_its_command_line(runner: Runner, tmp_path: Path) -> None:
    """Any user of a host can list command lines: no value of a role's environment stands in one."""
    started = tmp_path / "started"
    app = app_of("sh", "-c", f"echo >{started}; exec sleep 60", env={"API_TOKEN": VALUE})
    handle = runner.run(app, "local_cwd", {"grace_s": 0.0})
    wait_until(started.exists)
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]
    lines = {pid: " ".join(cmdline(pid)) for pid in pids}
    assert any("sleep 60" in line for line in lines.values())
    assert {pid: line for pid, line in lines.items() if VALUE in line} == {}
    runner.cancel(handle)
    runner.wait(handle)


@pytest.mark.usefixtures("open_umask")
def test_every_file_is_private_whatever_the_umask(runner: Runner, state_dir: Path) -> None:
    """Record, journal, logs, reports and control files are open to their user only."""
    report = 'echo \'{"type": "metric", "name": "loss", "value": 1}\' >>"$TORCHX_REPORT_FILE"'
    app = app_of("sh", "-c", f"{report}; echo out; echo err >&2; exit 3", env={"API_TOKEN": VALUE})
    runner.wait(runner.run(app, "local_cwd", app_id="one"))
    wait_until_unserved(state_dir, "one")  # the end is journaled before it is in a record of its own
    record = state_dir / "local_cwd" / "s" / "one"
    places = [place for place in record.rglob("*") if not place.is_symlink() and not place.is_dir()]
    assert {"spec.json", "journal.jsonl", "final.json", "stdout.log"} <= {place.name for place in places}
    attempt = record / "log" / "r" / "0" / "0"
    shared = [place for place in (record, attempt, *places) if stat.S_IMODE(place.stat().st_mode) & 0o077]
    assert shared == []
