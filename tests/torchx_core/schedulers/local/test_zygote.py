"""Apps whose guardian a zygote has become are like all others, whatever the zygote's own fate."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from local_apps import app_of
from zygotes import find_zygote, name_here, own_zygote

from torchx_core import AppState, Runner
from torchx_core.schedulers.local.liveness import is_served
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.schedulers.local.zygote import IDLE_VARIABLE, ask_zygote
from torchx_core.supervisor.tree import APP_MARKER, serving
from torchx_core.supervisor.zygote import address_of
from torchx_core.testing import wait_until

WAIT_S = 240


@pytest.fixture
def zygote() -> Iterator[psutil.Process]:
    """A zygote for the apps of this process."""
    with own_zygote() as zygote:
        yield zygote


def guardian_of(state_dir: Path, handle: str) -> psutil.Process:
    """Return the guardian of a running app."""
    app_dir = str(state_dir / handle.replace("://", "/"))
    pids = wait_until(lambda: len(found := serving(app_dir)) == 2 and found, timeout_s=WAIT_S)
    return next(process for process in map(psutil.Process, pids) if process.ppid() not in pids)


def is_running(runner: Runner, handle: str) -> bool:
    """Return whether the app is known to run."""
    status = runner.status(handle)
    return status is not None and status.state is AppState.RUNNING


def test_a_zygote_becomes_the_guardian(runner: Runner, state_dir: Path, zygote: psutil.Process) -> None:
    """It is found by its command, as one that was started as a program."""
    handle = runner.run(app_of("sleep", "600"), "local_cwd")
    guardian = guardian_of(state_dir, handle)
    assert guardian.ppid() == zygote.pid
    assert handle.rpartition("/")[2] in " ".join(guardian.cmdline())
    runner.cancel(handle)
    status = runner.wait(handle, timeout_s=WAIT_S)
    assert status is not None
    assert status.state is AppState.CANCELLED
    wait_until(lambda: not zygote.children(), timeout_s=WAIT_S)


def test_an_app_has_its_own_submitters_environment_and_directory(
    runner: Runner, zygote: psutil.Process, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is left of the one for whom the zygote was started, and nothing of ours reaches the program."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("MINE", "a=b\nc")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    shown = '"$MINE|${XDG_CACHE_HOME-none}|$PWD|${TORCHX_ZYGOTE-none}|${PATH%%:*}"'
    program = f"echo {shown}; readlink /proc/self/fd/0"

    handle = runner.run(app_of("sh", "-c", program), "local_cwd")
    lines = [*runner.log_lines(handle, "r", should_tail=True)]
    assert lines == ["a=b\n", f"c|none|{place}|none|{tmp_path}\n", "/dev/null\n"]
    assert zygote.is_running()


def test_it_holds_nothing_of_an_app(runner: Runner, state_dir: Path, zygote: psutil.Process) -> None:
    """An app that is killed with all who serve it is not taken for alive because of a zygote."""
    handle = runner.run(app_of("sleep", "600"), "local_cwd")
    guardian = guardian_of(state_dir, handle)
    wait_until(lambda: is_running(runner, handle), timeout_s=WAIT_S)  # what has not begun ends otherwise
    for process in (guardian, *guardian.children()):
        process.kill()
    record = AppRecord.read_from(str(state_dir / handle.replace("://", "/")))
    assert record is not None
    wait_until(lambda: not is_served(record), timeout_s=WAIT_S)
    status = runner.wait(handle, timeout_s=WAIT_S)
    assert status is not None
    assert (status.state, "both killed" in status.msg) == (AppState.FAILED, True)
    open_files = {str(fd.readlink()).partition(":")[0] for fd in Path(f"/proc/{zygote.pid}/fd").iterdir()}
    assert open_files == {"/dev/null", "socket"}


def test_an_app_outlives_the_zygote(runner: Runner, state_dir: Path, zygote: psutil.Process) -> None:
    """The next submit starts a program."""
    handle = runner.run(app_of("sleep", "600"), "local_cwd")
    guardian = guardian_of(state_dir, handle)
    zygote.kill()
    other = runner.run(app_of("echo", "still here"), "local_cwd")
    assert [*runner.log_lines(other, "r", should_tail=True)] == ["still here\n"]
    again = wait_until(lambda: find_zygote(name_here()), timeout_s=WAIT_S)
    again.kill()
    assert guardian.is_running()
    runner.cancel(handle)
    status = runner.wait(handle, timeout_s=WAIT_S)
    assert status is not None
    assert status.state is AppState.CANCELLED


def test_a_zygote_that_is_stopped_costs_some_seconds(runner: Runner, zygote: psutil.Process) -> None:
    """One app comes of it, also when the zygote goes on later."""
    zygote.suspend()
    handle = runner.run(app_of("sh", "-c", "echo one; sleep 1"), "local_cwd")
    zygote.resume()
    assert [*runner.log_lines(handle, "r", should_tail=True)] == ["one\n"]
    wait_until(lambda: not zygote.children(), timeout_s=WAIT_S)


def in_child(work: Callable[[], object]) -> int:
    """Do the work in a forked process and return its id."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    return pid


@pytest.mark.parametrize("answer", [b"", b"0", b"4096"], ids=["gone", "no room", "gone when asked"])
def test_a_zygote_that_does_not_take_an_app_is_no_matter(
    answer: bytes, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program is started; an app that went to one that died with it has failed, and says so."""
    monkeypatch.setenv(IDLE_VARIABLE, str(1.0 + os.getpid() / 1e7))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address_of(str(name_here())))
        server.listen()

        def offer() -> None:
            peer, _ = server.accept()
            if answer:
                peer.send(answer)
                peer.recv(4096)

        pid = in_child(offer)
    handle = runner.run(app_of("echo", "here"), "local_cwd")
    status = runner.wait(handle, timeout_s=WAIT_S)
    os.waitpid(pid, 0)
    assert status is not None
    if status.state is AppState.SUCCEEDED:
        assert [*runner.log_lines(handle, "r")] == ["here\n"]
    else:
        assert answer == b"4096"
        assert "never started" in status.msg
    if left := find_zygote(name_here()):
        left.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_somebody_elses_zygote_gets_nothing(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else listens under its name learns nothing of an app, and starts none."""
    monkeypatch.setenv(IDLE_VARIABLE, str(2.0 + os.getpid() / 1e7))
    heard = tmp_path / "heard"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server, heard.open("wb") as file:
        read, write = os.pipe()

        def listen() -> None:
            name = str(name_here())
            os.setuid(65534)
            server.bind(address_of(name))
            server.listen()
            os.write(write, b"x")
            peer, _ = server.accept()
            with suppress(OSError):
                peer.send(b"4096")
                file.write(peer.recv(4096))

        pid = in_child(listen)
        os.read(read, 1)
        handle = runner.run(app_of("echo", "here"), "local_cwd")
        assert [*runner.log_lines(handle, "r", should_tail=True)] == ["here\n"]
        os.waitpid(pid, 0)
        os.close(read)
        os.close(write)
    assert heard.read_bytes() == b""
    if left := find_zygote(name_here()):
        left.kill()


def other_umask() -> None:
    """Change what new files may be."""
    os.umask(0o057)


def other_limit() -> None:
    """Change how many files may be open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 4096))


def other_niceness() -> None:
    """Change how eagerly the processor is wanted."""
    os.nice(3)


def other_processors() -> None:
    """Use one processor alone."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def other_io_priority() -> None:
    """Use the disk only when nobody else does, as ``ionice -c3`` has it."""
    psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


def other_memory_policy() -> None:
    """Take memory from all nodes in turn, as ``numactl --interleave`` has it."""
    set_mempolicy, interleave, node_0 = {"x86_64": 238, "aarch64": 237}[os.uname().machine], 3, 1
    assert not ctypes.CDLL(None).syscall(set_mempolicy, interleave, ctypes.byref(ctypes.c_ulong(node_0)), 64)


def other_personality() -> None:
    """Have no addresses randomised, as ``setarch -R`` has it."""
    addr_no_randomize = 0x0040000
    ctypes.CDLL(None).personality(addr_no_randomize)


def other_idle_time() -> None:
    """Ask for a zygote that waits for less long."""
    os.environ[IDLE_VARIABLE] = "7"


@pytest.mark.parametrize(
    "change",
    [
        other_umask,
        other_limit,
        other_niceness,
        other_processors,
        other_io_priority,
        other_memory_policy,
        other_personality,
        other_idle_time,
    ],
)
def test_what_a_program_has_of_its_submitter_it_has_of_no_other(change: Callable[[], None]) -> None:
    """A process that would pass on something else has another zygote."""
    read, write = os.pipe()

    def send_name() -> None:
        change()
        os.write(write, str(name_here()).encode())

    os.waitpid(in_child(send_name), 0)
    other = os.read(read, 4096).decode()
    assert other not in {"", "None"}
    assert other != name_here()
    os.close(read)
    os.close(write)


def test_a_program_of_an_app_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an app starts ends with it; a zygote that serves others must not."""
    monkeypatch.setenv(IDLE_VARIABLE, "9")
    assert name_here() is not None
    monkeypatch.setenv(APP_MARKER, "/somewhere")
    assert name_here() is None


def test_a_zygote_goes_when_nobody_comes(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes some memory, and whoever removes a virtual environment wants nothing of it to run."""
    monkeypatch.setenv(IDLE_VARIABLE, str(0.5 + os.getpid() / 1e7))
    runner.wait(runner.run(app_of("true"), "local_cwd"), timeout_s=WAIT_S)
    wait_until(lambda: find_zygote(name_here()) is None, timeout_s=WAIT_S)
    assert not ask_zygote(str(name_here()), ["x"], [0, 0, 0, 0], {})


def test_many_processes_submit_at_once(state_dir: Path, zygote: psutil.Process, tmp_path: Path) -> None:
    """Each app runs once, with what its own submitter gave it."""
    program = f"""
import os, sys
from torchx_core import AppDef, Role, get_runner
os.environ["WHO"] = sys.argv[1]
with get_runner("s", state_dir={str(state_dir)!r}) as runner:
    for n in range(5):
        args = ["-c", 'echo "$WHO $0" >> {tmp_path}/log', str(n)]
        app = AppDef("a", [Role("r", image="", entrypoint="sh", args=args)])
        status = runner.wait(runner.run(app, "local_cwd"), timeout_s={WAIT_S})
        assert str(status.state) == "SUCCEEDED", status
"""
    children = [subprocess.Popen([sys.executable, "-c", program, str(who)]) for who in range(6)]
    assert [child.wait(WAIT_S) for child in children] == [0] * 6
    lines = (tmp_path / "log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{who} {n}" for who in range(6) for n in range(5))
    assert zygote.is_running()
