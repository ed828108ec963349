"""Commands inside containers: terminal, pipe, Ctrl-C, and what is left when their user leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from cli_terminal import in_terminal, torchx_core
from docker_apps import new_runner, role
from docker_engine import DockerEngine
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.errors import SchedulerError
from torchx_core.runner import Runner
from torchx_core.schedulers.docker.inside import TELL, Frames, WindowSize
from torchx_core.specs import AppDef
from torchx_core.testing import wait_until
from torchx_core.testing.steps import Hold, Print

SESSION = "inside"
HANDLE = f"local_docker://{SESSION}/x"
COUNT = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 4[3]21' | wc -l"
"""How many of them sleep, without whoever counts."""


@pytest.fixture
def runner(engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner whose engine the command line finds, too."""
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    with new_runner(engine.url, SESSION) as runner:
        yield runner


def _up(runner: Runner, **cfg: Any) -> None:
    """Have an app of one replica that stays."""
    worker = role("worker", Print("up"), Hold(), env={"MARK": "a b"})
    runner.run(AppDef("app", [worker]), "local_docker", cfg, app_id="x")
    next(line for batch in runner.follow(HANDLE) for line in batch.lines())


def _inside(script: str, **run: Any) -> subprocess.CompletedProcess[str]:
    return torchx_core("exec", HANDLE, "worker", "--", "sh", "-c", script, **run)


def test_streams_and_environment_are_the_replicas(runner: Runner) -> None:
    """What is piped in arrives, however much; the attempt's own variables are there, too."""
    _up(runner)
    done = _inside("cat; echo $MARK $TORCHX_ATTEMPT $TORCHX_REPORT_FILE; echo no >&2; exit 9", stdin="in\n")
    assert (done.returncode, done.stderr) == (9, "no\n")
    assert done.stdout == "in\na b 0 /run/torchx/reports/0.0\n"
    assert _inside("wc -c", stdin="x" * 3_000_000).stdout.strip() == "3000000"
    assert len(_inside("head -c 3000000 /dev/zero | tr '\\0' x").stdout) == 3_000_000


def test_it_has_a_terminal(runner: Runner) -> None:
    """Size and keys: Ctrl-C ends what runs in the shell, not the shell, and not us."""
    _up(runner)
    with in_terminal("shell", HANDLE, columns=77, lines=20) as terminal:
        terminal.wait_for("#")
        terminal.press("stty size\n")
        terminal.wait_for("20 77")
        terminal.press("echo be''gin; sleep 600\n")
        terminal.wait_for("begin")
        terminal.interrupt()
        terminal.wait_for("^C")
        terminal.resize(60, 15)
        terminal.press("until [ \"$(stty size)\" = '15 60' ]; do sleep 0.1; done; echo en''d; exit 5\n")
        terminal.wait_for("end")
        assert terminal.exit_code() == 5
        assert terminal.echoes()


def test_a_size_that_the_engine_did_not_take_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that failed is made again, and one that went is not: no terminal keeps an earlier size."""
    sizes = iter([(80, 24), (80, 24), (60, 15), (60, 15), (60, 15)])
    clock = iter(range(100))
    sent: list[tuple[int, int]] = []

    def size_of(_fd: int) -> os.terminal_size:
        return os.terminal_size(next(sizes))

    def resize(columns: int, lines: int) -> None:
        sent.append((columns, lines))
        if len(sent) == 2:
            raise SchedulerError("away for a moment")

    monkeypatch.setattr(os, "get_terminal_size", size_of)
    monkeypatch.setattr("torchx_core.schedulers.docker.inside.time.monotonic", lambda: float(next(clock)))
    window = WindowSize(resize)
    for _ in range(5):
        window.hand_on()
    assert sent == [(80, 24), (60, 15), (60, 15)]


def test_ctrl_c_without_a_terminal_reaches_the_command(runner: Runner) -> None:
    """Which makes of it what it likes."""
    _up(runner)
    script = "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.1; done"
    command = [sys.executable, "-m", "torchx_core", "exec", HANDLE, "worker", "--", "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "caught\n"
        assert process.wait(240) == 4


@pytest.mark.parametrize("shell", [["busybox", "sh"], ["dash"], ["bash"]], ids=lambda shell: shell[0])
def test_a_command_is_told_once(shell: list[str]) -> None:
    """Whatever shell its image has: its group gets the signal, and it gets no second one by itself."""
    words = ["sh", "-c", "trap 'exit 4' INT; echo ready; while :; do sleep 0.1; done"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        tell = [*shell, "-cx", TELL, "torchx", "INT", str(process.pid)]
        told = subprocess.run(tell, stderr=subprocess.PIPE, text=True, check=True)
        assert len(told.stderr.splitlines()) == 1, told.stderr
        assert process.wait(240) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_leaves_leaves_nothing_behind(runner: Runner, number: signal.Signals) -> None:
    """The engine would let the command go on."""
    _up(runner)
    words = ["sh", "-c", "echo ready; exec sleep 4321"]
    command = [sys.executable, "-m", "torchx_core", "exec", HANDLE, "worker", "--", *words]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert _inside(COUNT).stdout.strip() == "1"
        process.send_signal(number)
        assert process.wait(240) == 128 + number
    wait_until(lambda: _inside(COUNT).stdout.strip() == "0", 240)


def test_a_reader_that_stops_ends_it(runner: Runner) -> None:
    """As in any pipe."""
    _up(runner)
    command = f"{sys.executable} -m torchx_core exec {HANDLE} worker yes; echo $? >&2"
    done = subprocess.run(f"({command}) | head -1", shell=True, capture_output=True, text=True, check=True)  # noqa: S602  # a pipe is what is tested
    assert (done.stdout, done.stderr) == ("y\n", "141\n")


def test_without_the_script_a_command_runs_as_it_is(runner: Runner) -> None:
    """Nobody knows whether the image has a shell."""
    _up(runner, shim="none")
    assert _inside("echo $MARK; exit 3").stdout == "a b\n"
    assert _inside("exit 3").returncode == 3
    assert torchx_core("exec", HANDLE, "worker", "/no/such").returncode in (126, 127)


def test_stacks_need_py_spy_in_the_image(runner: Runner) -> None:
    """The error says so."""
    _up(runner)
    done = torchx_core("stacks", HANDLE, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 127
    assert "not installed where the replica runs" in done.stderr


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50))), st.integers(1, 30))
def test_frames_are_taken_apart_however_they_arrive(pieces: list[tuple[int, bytes]], size: int) -> None:
    """In order, and whole."""
    data = b"".join(bytes([fd, 0, 0, 0]) + len(piece).to_bytes(4, "big") + piece for fd, piece in pieces)
    frames = Frames()
    assert [f for at in range(0, len(data), size) for f in frames.take(data[at : at + size])] == pieces
