"""What a program prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from slurm_nodes import PATIENCE_S, Nodes, below, run_ends

from torchx_core.testing import wait_until


def test_a_long_line_is_cut_between_letters(nodes: Nodes) -> None:
    """Each piece can be decoded by itself."""
    text = "x" + "é🙂" * 40_000
    nodes.prepare(f'exec {sys.executable} -c \'print("x" + "é🙂" * 40_000, end="")\'')
    assert nodes.start(0).wait(PATIENCE_S) == 0
    ends = run_ends(nodes.output("r0", name="index"))
    data = nodes.output("r0")
    assert len(ends) > 2
    pieces = [data[a:b].decode() for a, b in zip([0, *ends], ends, strict=False)]
    assert "".join(pieces) == text


class Disk:
    """A file system of its own for the logs of some nodes."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more text, or for more files."""
        room = os.statvfs(self._folder)
        return not room.f_bavail or not room.f_favail

    def make_room(self) -> None:
        """Let more onto it."""
        subprocess.run(["mount", "-o", "remount,size=16m,nr_inodes=1000", self._folder], check=True)


@pytest.fixture(params=["size=256k", "nr_inodes=3"])
def small_disk(nodes: Nodes, request: pytest.FixtureRequest) -> Iterator[Disk]:
    """Logs lie where there is no room for many lines, or for many files."""
    nodes.logs.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", str(nodes.logs)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs to mount a file system")
    yield Disk(nodes.logs)
    subprocess.run(["umount", "--lazy", str(nodes.logs)], check=True)


def test_a_full_disk_loses_no_line(nodes: Nodes, small_disk: Disk) -> None:
    """The program waits, and goes on when there is room."""
    nodes.prepare("seq 100000; echo over >&2")
    task = nodes.start(0)
    wait_until(lambda: small_disk.is_full, PATIENCE_S)
    assert task.poll() is None
    small_disk.make_room()
    assert task.wait(PATIENCE_S) == 0
    expected = b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert nodes.output("r0", name="stdout.log") == expected
    assert nodes.output("r0", name="stderr.log") == b"over\n"
    assert sorted(nodes.output("r0").splitlines()) == sorted([*expected.splitlines(), b"over"])
    assert run_ends(nodes.output("r0", name="index"))[-1] == len(expected) + len(b"over\n")


@pytest.mark.parametrize("small_disk", ["size=256k"], indirect=True)
def test_an_app_on_a_full_disk_can_be_cancelled(nodes: Nodes, small_disk: Disk) -> None:
    """Its program is stopped, by force after the grace period."""
    nodes.prepare("trap '' TERM; while :; do seq 10000; done", cfg={"grace_s": 0.5})
    task = nodes.start(0)
    wait_until(lambda: small_disk.is_full, PATIENCE_S)
    stop = {"outcome": "CANCELLED", "msg": "", "grace_s": None, "time": 0, "index": -1}
    (nodes.app_dir / "stop.json").write_text(json.dumps(stop))
    program = next(p for p in below(task.pid) if p.name() == "sh")
    assert task.wait(PATIENCE_S) != 0
    assert not program.is_running()


@pytest.mark.parametrize("limit", ["timeout_s", "lease_s"])
def test_a_full_disk_keeps_no_app_running(nodes: Nodes, limit: str) -> None:
    """Its limits hold though there is no room to write down why it ends; that follows when there is."""
    nodes.app_dir.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(nodes.app_dir)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs to mount a file system")
    try:
        nodes.prepare("trap '' TERM; while :; do sleep 0.1; done", cfg={limit: 2, "grace_s": 0.5})
        task = nodes.start(0)
        wait_until(lambda: any(p.name() == "sh" for p in below(task.pid)), PATIENCE_S)
        program = next(p for p in below(task.pid) if p.name() == "sh")
        filler = nodes.app_dir / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        wait_until(lambda: not program.is_running() or program.status() == "zombie", PATIENCE_S)
        assert nodes.read("stop.json") is None
        filler.unlink()
        task.wait(PATIENCE_S)
        assert nodes.read("stop.json")["outcome"] == "CANCELLED"
    finally:
        subprocess.run(["umount", "--lazy", str(nodes.app_dir)], check=True)
