"""What a local app's replicas use: compared with what their programs say of themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from local_apps import lines_of

from torchx_core import Resource, Runner
from torchx_core.specs import Usage
from torchx_core.supervisor.limits import confine
from torchx_core.testing import wait_until

MB = 1 << 20
_WITNESS = """
import json, os, resource, sys
ballast = bytearray(int(sys.argv[1]) << 20)
if os.fork() == 0:
    while sum(os.times()[:2]) < 0.3: pass
    os._exit(0)
os.wait()
while sum(os.times()[:2]) < 0.2: pass
own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([sum(os.times()[:4]), max(own.ru_maxrss, below.ru_maxrss) >> 10]))
"""
# An intermediate child leaves a grandchild behind, which burns and is taken leave of before its replica ends.
_ORPHAN = """
import os, time
reading, writing = os.pipe()
if os.fork() == 0:
    orphan = os.fork()
    if orphan == 0:
        while sum(os.times()[:2]) < 0.4: pass
        os._exit(0)
    os.write(writing, str(orphan).encode())
    os._exit(0)
os.wait()
orphan = os.read(reading, 20).decode()
while os.path.exists("/proc/" + orphan): time.sleep(0.01)
"""


def can_limit_memory() -> bool:
    """Return whether this host lets us make a memory group."""
    group = confine(f"torchx-probe-{os.getpid()}", cpu=0, mem_mb=64)
    group.remove()
    return not group.missing


def _used(runner: Runner, handle: str) -> Usage:
    end = runner.wait(handle, timeout_s=240)
    assert end
    return end.roles[0].replicas[0].usage


@pytest.mark.parametrize("resource", [Resource(0, 0, 0), Resource(1, 0, 600)], ids=["alone", "in a group"])
def test_final_figures_are_what_the_program_used(submit: Any, runner: Runner, resource: Resource) -> None:
    """CPU time with that of children; the peak; how long it ran."""
    handle = submit(sys.executable, "-S", "-c", _WITNESS, "80", resource=resource)
    usage = _used(runner, handle)
    cpu_s, peak_mb = json.loads(lines_of(runner.follow(handle))[0].text)
    assert usage.cpu_s is not None
    assert usage.memory_peak_bytes is not None
    assert (
        cpu_s - 0.05 <= usage.cpu_s <= cpu_s + 0.5
    )  # its end, and clocks that tick a hundred times a second
    # A group counts both processes, and not the pages of files that others have read before.
    assert 80 * MB <= usage.memory_peak_bytes <= 2 * peak_mb * MB
    assert usage.wall_s is not None
    assert usage.wall_s >= 0.5


def test_what_a_child_leaves_behind_counts(submit: Any, runner: Runner) -> None:
    """An orphan that ends before its replica is one of its processes."""
    handle = submit(sys.executable, "-S", "-c", _ORPHAN, resource=Resource(0, 0, 0))
    assert (_used(runner, handle).cpu_s or 0) >= 0.4


def test_attempts_add_up(submit: Any, runner: Runner) -> None:
    """A replica that was started three times has used what all three have."""
    program = (
        "import os, sys\nwhile sum(os.times()[:2]) < 0.2: pass\nsys.exit(os.environ['TORCHX_ATTEMPT'] < '2')"
    )
    once = _used(runner, submit(sys.executable, "-S", "-c", "pass", app_id="once"))
    usage = _used(runner, submit(sys.executable, "-S", "-c", program, max_retries=2))
    assert usage.cpu_s is not None
    assert usage.cpu_s >= 0.6
    assert once.cpu_s is not None
    assert 0 < once.cpu_s < 0.6


def test_what_did_not_run_has_used_nothing_that_is_known(submit: Any, runner: Runner, tmp_path: Path) -> None:
    """A program that cannot be started leaves no figures, and no zeros."""
    program = tmp_path / "program"
    program.write_text("no program")
    program.chmod(0o700)
    assert _used(runner, submit(str(program))) == Usage()


# Reports its own figures once it has two processes, then stays.
_LIVE = """
import os, signal, sys
ballast = bytearray(60 << 20)
with open(sys.argv[1], "wb") as file:
    file.write(b"x" * (8 << 20))
    os.fsync(file.fileno())
if os.fork() == 0:
    if len(sys.argv) > 2: os.setsid()
    more = bytearray(40 << 20)
    while sum(os.times()[:2]) < 0.3: pass
    print("up", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("resource", [Resource(0, 0, 0), Resource(1, 0, 600)], ids=["alone", "in a group"])
def test_live_figures_are_those_of_all_its_processes(
    submit: Any, runner: Runner, tmp_path: Path, resource: Resource
) -> None:
    """CPU time and memory of both, what was written, how many there are."""
    handle = submit(sys.executable, "-S", "-c", _LIVE, str(tmp_path / "file"), resource=resource)
    next(line for batch in runner.follow(handle) for line in batch.lines() if line.text == "up")
    [sample] = runner.usage(handle)
    usage = sample.usage
    assert (sample.role, sample.replica, sample.attempt) == ("r", 0, 0)
    assert usage.processes == 2
    assert 0.3 <= (usage.cpu_s or 0) < 10
    assert 95 * MB <= (usage.memory_bytes or 0) <= 300 * MB
    assert usage.write_bytes is None or usage.write_bytes >= 8 * MB
    assert usage.gpu_percent is None
    if can_limit_memory() and resource.memMB:
        assert usage.memory_limit_bytes == 600 * MB
        assert (usage.memory_peak_bytes or 0) >= (usage.memory_bytes or 0)


def test_what_has_left_its_session_is_counted_with_its_replica(
    submit: Any, runner: Runner, tmp_path: Path
) -> None:
    """As long as its parent lives, or its control group knows."""
    handle = submit(sys.executable, "-S", "-c", _LIVE, str(tmp_path / "file"), "leave")
    next(line for batch in runner.follow(handle) for line in batch.lines() if line.text == "up")
    assert [sample.usage.processes for sample in runner.usage(handle)] == [2]


def test_an_app_within_an_app_is_not_counted(submit: Any, runner: Runner, state_dir: Path) -> None:
    """What a replica has submitted is no part of it, and has figures of its own."""
    inner = """
import sys, signal
from torchx_core import AppDef, Role, get_runner
role = Role("inner", "", entrypoint="sleep", args=["600"])
with get_runner("s", state_dir=sys.argv[1]) as runner:
    print(runner.run(AppDef("inner", [role]), "local_cwd", app_id="inner"), flush=True)
signal.pause()
"""
    handle = submit(sys.executable, "-c", inner, str(state_dir))
    line = next(line for batch in runner.follow(handle) for line in batch.lines())
    assert [sample.usage.processes for sample in runner.usage(handle)] == [1]
    wait_until(lambda: len(runner.usage(line.text)) == 1, 240)
    runner.cancel(line.text, grace_s=0)


def test_a_replica_that_has_ended_has_no_live_figures(submit: Any, runner: Runner) -> None:
    """Its number may be another process's by now."""
    handle = submit("sh", "-c", "[ $0 = 0 ] || exec sleep 600", "${replica_id}", num_replicas=2)
    wait_until(lambda: [s.replica for s in runner.usage(handle)] == [1], 240)


_FOLLOW = """
import sys
from torchx_core import get_runner
from torchx_core.schedulers import UsageSample
state_dir, handle, usage = sys.argv[1:]
with get_runner("s", state_dir=state_dir) as runner:
    for batch in runner.follow(handle, usage=bool(usage)):
        if not usage or any(isinstance(event, UsageSample) for event in batch.events):
            runner.cancel(handle, grace_s=0)
print("torchx_core.schedulers.local.usage" in sys.modules)
"""


@pytest.mark.parametrize("usage", ["", "yes"])
def test_only_who_asks_for_usage_pays_for_it(submit: Any, state_dir: Path, usage: str) -> None:
    """Whoever follows without it does not even load what it takes."""
    handle = submit("sleep", "600")
    command = [sys.executable, "-c", _FOLLOW, str(state_dir), handle, usage]
    assert subprocess.check_output(command, text=True) == f"{bool(usage)}\n"
