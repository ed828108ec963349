"""What depends on the host: limits, GPUs, image directories, the environment."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import pytest
from local_apps import app_of, lines_of, python

from torchx_core import AppState, Resource, Runner, get_runner
from torchx_core.errors import InvalidAppError
from torchx_core.schedulers import LogLine
from torchx_core.schedulers.local.devices import host_gpus
from torchx_core.specs import CfgVal
from torchx_core.supervisor import limits
from torchx_core.supervisor.limits import confine
from torchx_core.testing import wait_until

HOG = "x = bytearray(400 * 2**20); print(len(x))"


def can_limit_memory() -> bool:
    """Return whether this host lets us make a memory group."""
    group = confine(f"torchx-probe-{os.getpid()}", cpu=0, mem_mb=64)
    group.remove()
    return not group.missing


def test_memory_limit(runner: Runner) -> None:
    """A replica that outgrows memMB is killed, out of memory; a host that cannot do it says so."""
    app = app_of(sys.executable, "-c", HOG, resource=Resource(cpu=1, gpu=0, memMB=128))
    status = runner.wait(runner.run(app, "local_cwd"), timeout_s=240)
    assert status
    if can_limit_memory():
        assert status.state == AppState.FAILED
        assert "out of memory: peak 128 MB of 128 MB allowed by memMB" in status.failure_summary()
    else:
        assert "not enforced on this host" in status.roles[0].replicas[0].msg


def test_limits_can_be_off(runner: Runner) -> None:
    """limits=off leaves the program alone."""
    app = app_of(sys.executable, "-c", HOG, resource=Resource(cpu=1, gpu=0, memMB=128))
    status = runner.wait(runner.run(app, "local_cwd", {"limits": "off"}), timeout_s=240)
    assert status
    assert status.state == AppState.SUCCEEDED


def test_a_limit_that_cannot_be_had_is_named() -> None:
    """What the host does not let us enforce is said, per limit."""
    group = confine("torchx/no/such/parent", cpu=2, mem_mb=64)
    assert "memory limit of 64 MB" in group.missing
    assert "limit of 2 cores" in group.missing


def test_a_limit_that_fails_leaves_the_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both lie in one directory of a host with the second version of control groups."""
    monkeypatch.setattr(limits, "_homes", lambda: {name: (2, str(tmp_path)) for name in ("memory", "cpu")})
    # Nothing in the directory itself: a control group can be removed though it has files.
    monkeypatch.setattr(limits, "_memory_files", {64: {2: ("../memory.max", "")}}.__getitem__)
    monkeypatch.setattr(limits, "_cpu_files", {0.001: {2: ("none/cpu.max", "")}}.__getitem__)
    group = confine("group", cpu=0.001, mem_mb=64)
    assert group.missing.endswith(": limit of 0.001 cores")
    assert group.directories == (str(tmp_path / "group"),)
    assert (tmp_path / "group").is_dir()


def test_gpus_are_not_shared_between_apps(state_dir: Path) -> None:
    """Two apps that ask for GPUs never see the same one at the same time; a third waits."""
    script = 'echo "gpu $CUDA_VISIBLE_DEVICES"; while [ ! -e "$0" ]; do sleep 0.01; done'
    done = state_dir.parent / "done"
    cfg = {"auto_set_cuda_visible_devices": True}
    resource = Resource(cpu=0, gpu=1, memMB=0)
    with get_runner("s", state_dir=str(state_dir), gpus=("0", "1", "2", "3")) as runner:
        app = app_of("sh", "-c", script, str(done), num_replicas=2, resource=resource)
        handles = [runner.run(app, "local_cwd", cfg) for _ in range(3)]

        def begun() -> list[str]:
            return [h for h in handles if (s := runner.status(h)) and s.state == AppState.RUNNING]

        wait_until(lambda: len(begun()) == 2, 240)
        waiting = [s for h in handles if (s := runner.status(h)) and s.state == AppState.SUBMITTED]
        assert [s.msg for s in waiting] == ["waiting for free GPUs"]
        first = {x.text for h in begun() for x in _first_lines(runner, h)}
        done.touch()
        ends = [runner.wait(handle, timeout_s=240) for handle in handles]
        assert [end.state for end in ends if end] == [AppState.SUCCEEDED] * 3
    assert first == {"gpu 0", "gpu 1", "gpu 2", "gpu 3"}


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, ("0", "1", "2")),
        ("2,0", ("2", "0")),
        (" 1 ", ("1",)),
        ("GPU-b7,GPU-a1-0000", ("1", "0")),
        ("1,GPU-,2", ("1",)),
        ("1,-1,2", ("1",)),
        ("1,7", ("1",)),
        ("", ()),
        ("MIG-5a-3", ("MIG-5a-3",)),
    ],
)
def test_a_worker_with_some_of_the_gpus_hands_out_no_others(
    visible: str | None, found: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver lists all; what CUDA would show to this process is what an app may get."""
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\nprintf '0, GPU-a1-0000\\n1, GPU-b7-0000\\n2, GPU-a1-1111\\n'\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert host_gpus() == found
    if visible is not None:
        app = app_of("true", resource=Resource(cpu=0, gpu=3, memMB=0))
        cfg: dict[str, CfgVal] = {"auto_set_cuda_visible_devices": True, "unsupported": "refuse"}
        with (
            get_runner("s") as runner,
            pytest.raises(
                InvalidAppError, match=f"3 GPUs, this host has {len(found)} in CUDA_VISIBLE_DEVICES"
            ),
        ):
            runner.dryrun(app, "local_cwd", cfg)


def test_gpus_that_cannot_be_locked(state_dir: Path) -> None:
    """An app whose GPU's lock file cannot be opened fails, and says so."""
    (state_dir / "gpus" / "0.lock").mkdir(parents=True)
    app = app_of("true", resource=Resource(cpu=0, gpu=1, memMB=0))
    with get_runner("s", state_dir=str(state_dir), gpus=("0",)) as runner:
        handle = runner.run(app, "local_cwd", {"auto_set_cuda_visible_devices": True})
        end = runner.wait(handle, timeout_s=240)
    assert end is not None
    assert end.state == AppState.FAILED
    assert "cannot lock GPUs" in end.msg


def _first_lines(runner: Runner, handle: str) -> list[LogLine]:
    lines: list[LogLine] = []
    for batch in runner.follow(handle):
        lines += batch.lines()
        if len(lines) >= 2:
            break
    return lines


def test_more_gpus_than_the_host_has(state_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The app runs with what is there, and the log says so; it is refused where that is asked for."""
    script = 'echo "gpus ${CUDA_VISIBLE_DEVICES-as they are}"'
    app = app_of("sh", "-c", script, num_replicas=2, resource=Resource(cpu=0, gpu=2, memMB=0))
    cfg: dict[str, CfgVal] = {"auto_set_cuda_visible_devices": True}
    with get_runner("s", state_dir=str(state_dir), gpus=("0",)) as runner:
        lines = lines_of(runner.follow(runner.run(app, "local_cwd", cfg)))
        assert {line.text for line in lines} == {
            f"gpus {os.environ.get('CUDA_VISIBLE_DEVICES', 'as they are')}"
        }
        assert "ignored: roles: ask for 4 GPUs, this host has 1" in caplog.text
        with pytest.raises(InvalidAppError, match="ask for 4 GPUs, this host has 1"):
            runner.run(app, "local_cwd", {**cfg, "unsupported": "refuse"})


def test_local_dir_runs_in_its_image(runner: Runner, tmp_path: Path) -> None:
    """local_dir takes the image as a directory: programs are found in it and start in it."""
    program = tmp_path / "image" / "bin" / "hello"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\npwd\necho "$1"\n')
    program.chmod(0o755)
    app = app_of("bin/hello", "${img_root}", image=str(tmp_path / "image"))
    handle = runner.run(app, "local_dir")
    image = str(tmp_path / "image")
    assert [x.text for x in lines_of(runner.follow(handle))] == [image, image]


@pytest.mark.parametrize("image", ["relative", "/no/such/dir"])
def test_local_dir_refuses_what_is_no_directory(runner: Runner, image: str) -> None:
    """An image that is no directory of this host is an error of the dry run."""
    with pytest.raises(InvalidAppError, match="image"):
        runner.dryrun(app_of("true", image=image), "local_dir")


def test_the_environment_of_a_replica(runner: Runner) -> None:
    """TorchX's variables are there, the role's own win, and macros are filled in."""
    names = ["TORCHX_JOB_ID", "TORCHX_RANK0_HOST", "TORCHX_INTERNAL_SESSION_ID", "PYTHONUNBUFFERED", "OWN"]
    script = "; ".join(f'echo "${name}"' for name in names).replace("$", "$$")
    env = {"OWN": "${app_id}/${replica_id}", "PYTHONUNBUFFERED": "mine"}
    handle = runner.run(app_of("sh", "-c", script, env=env), "local_cwd", app_id="one")
    assert [x.text for x in lines_of(runner.follow(handle))] == [
        "local_cwd://s/one",
        "localhost",
        "s",
        "mine",
        "one/0",
    ]


def test_prepend_cwd(runner: Runner, tmp_path: Path) -> None:
    """prepend_cwd lets a program in the working directory win over one in PATH."""
    mine = tmp_path / "ls"
    mine.write_text("#!/bin/sh\necho mine\n")
    mine.chmod(0o755)
    with contextlib.chdir(tmp_path):
        handle = runner.run(app_of("ls"), "local_cwd", {"prepend_cwd": True})
    assert [x.text for x in lines_of(runner.follow(handle))] == ["mine"]


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_a_submitter_may_have_closed_its_streams(state_dir: Path, closed: list[int]) -> None:
    """A daemon's files get the numbers of stdin, stdout and stderr; its apps start all the same."""
    code = """
import os, sys
from torchx_core import AppDef, Role, get_runner
for fd in map(int, sys.argv[1:]):
    os.close(fd)
with get_runner("s") as runner:
    app = AppDef("a", [Role("r", "", entrypoint="sh", args=["-c", "echo out; echo err >&2"])])
    runner.run(app, "local_cwd", app_id="one")
"""
    python(state_dir, code, *map(str, closed)).communicate(timeout=240)
    with get_runner("s", state_dir=str(state_dir)) as runner:
        lines = lines_of(runner.follow("local_cwd://s/one"))
    assert sorted((line.stream, line.text) for line in lines) == [("stderr", "err"), ("stdout", "out")]
