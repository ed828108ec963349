"""Commands inside a replica, as a user meets them: in a terminal, in a pipe, and when he leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_apps import Cli, ended, submitted
from cli_terminal import in_terminal, torchx_core
from local_apps import running

from torchx_core import AppDef, Resource, Role, get_runner
from torchx_core.testing import Exit, Hold, wait_until

HANDLE = "local_cwd://torchx/x"


def _submit(*steps: str, **role: object) -> str:
    """Submit a shell script and wait until it has printed a line."""
    fields = {"name": "main", "image": "", "entrypoint": "sh", "args": ["-c", *steps], **role}
    with get_runner() as runner:
        app = AppDef("app", [Role(**fields)])  # type: ignore[arg-type]  # the tests pass what Role takes
        handle = runner.run(app, "local_cwd", app_id="x")
        next(line for batch in runner.follow(handle) for line in batch.lines())
    return handle


STAY = "echo up; exec sleep 600"


def test_streams_and_exit_code_are_the_commands() -> None:
    """What is piped in arrives, and what comes out is its own."""
    _submit(STAY, env={"MARK": "a b"})
    done = torchx_core(
        "exec", HANDLE, "main", "--", "sh", "-c", "cat; echo $MARK; pwd >&2; exit 9", stdin="in\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (9, "in\na b\n", f"{Path.cwd()}\n")


def test_options_of_the_command_are_its_own() -> None:
    """With the two dashes before it, or without."""
    _submit(STAY)
    assert torchx_core("exec", HANDLE, "main/0", "echo", "--json", "-h").stdout == "--json -h\n"
    assert torchx_core("exec", HANDLE, "main/0", "--", "--json").returncode == 127


def test_it_is_held_to_the_limits_of_its_replica() -> None:
    """By the control group that the attempt has, where there is one."""
    _submit(STAY, resource=Resource(cpu=1, gpu=0, memMB=64))
    with get_runner() as runner:
        status = runner.status(HANDLE)
    assert status
    if "not enforced" in status.roles[0].replicas[0].msg:
        pytest.skip(status.roles[0].replicas[0].msg)
    hog = "x = bytearray(400 << 20)"
    assert torchx_core("exec", HANDLE, "main", sys.executable, "-S", "-c", hog).returncode == 137


def test_a_reader_that_stops_ends_it() -> None:
    """As in any pipe."""
    _submit(STAY)
    command = f"{sys.executable} -m torchx_core exec {HANDLE} main yes; echo $? >&2"
    done = subprocess.run(f"({command}) | head -1", shell=True, capture_output=True, text=True, check=True)  # noqa: S602  # a pipe is what is tested
    assert (done.stdout, done.stderr) == ("y\n", "141\n")


def test_it_has_the_terminal() -> None:
    """Size and keys: Ctrl-C ends what runs in the shell, not the shell, and not us."""
    _submit(STAY)
    with in_terminal("exec", HANDLE, "main", "--", "sh", columns=77, lines=20) as terminal:
        terminal.press("stty size\n")
        terminal.wait_for("20 77")
        terminal.press("echo be''gin; sleep 619.7\n")
        terminal.wait_for("begin")
        terminal.resize(60, 15)
        wait_until(lambda: running("619.7"), 240)  # else the shell alone would get what is meant for it
        terminal.interrupt()
        terminal.wait_for("^C")  # which throws away what was typed before
        terminal.press("stty size; echo en''d\n")
        terminal.wait_for("end")
        assert any(line.endswith("15 60") for line in terminal.shown())  # perhaps behind a late prompt
        terminal.press("exit 5\n")
        assert terminal.exit_code() == 5
        assert terminal.echoes()


def test_ctrl_c_is_the_commands_business() -> None:
    """One that catches it goes on, and we wait for it."""
    _submit(STAY)
    script = "trap 'echo caught' INT; echo ready; sleep 0.1; while ! test -e go; do sleep 0.05; done; exit 4"
    with in_terminal("exec", HANDLE, "main", "--", "sh", "-c", script) as terminal:
        terminal.wait_for("ready")
        terminal.interrupt()
        terminal.wait_for("caught")
        Path("go").touch()
        assert terminal.exit_code() == 4
    Path("go").unlink()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_leaves_leaves_nothing_behind(number: signal.Signals, work: Path) -> None:
    """A window that is closed, or a kill, ends the command."""
    _submit(STAY)
    pid_file = work / "pid"
    words = ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 600"]
    command = [sys.executable, "-m", "torchx_core", "exec", HANDLE, "main", "--", *words]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        pid = wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), 240)
        process.send_signal(number)
        assert process.wait(240) == 128 + number
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), 240)
    pid_file.unlink()


def test_a_shell_opens_in_the_first_replica_that_runs() -> None:
    """The shell says which replica that is; leaving it leaves the app running."""
    _submit("[ $0 = 0 ] && exit 0; echo up; exec sleep 600", "${replica_id}", num_replicas=2)
    with get_runner() as runner:
        wait_until(lambda: (s := runner.status(HANDLE)) and s.roles[0].replicas[0].ended_at, 240)
    with in_terminal("shell", HANDLE) as terminal:
        terminal.wait_for("inside main/1")
        terminal.press("echo this is $TORCHX_JOB_ID; exit 3\n")
        assert terminal.exit_code() == 3
        assert f"this is {HANDLE}" in terminal.shown()
    with in_terminal("shell", HANDLE, "main/1") as terminal:
        terminal.press("exit\n")
        assert terminal.exit_code() == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["exec", HANDLE, "main/7", "true"], 3, "has no replica 7 of role 'main'; known: 0"),
        (["exec", HANDLE, "mainn/0", "true"], 3, "did you mean 'main'?"),
        (["exec", f"{HANDLE}y", "main", "true"], 3, "unknown app"),
        (["exec", HANDLE, "main/x", "true"], 2, "not a replica: 'main/x'; expected ROLE/K"),
        (["exec", HANDLE, "main"], 2, "no command; expected for example"),
        (["exec", HANDLE, "main", "--"], 2, "no command"),
        (["exec", HANDLE], 2, "ROLE/K"),
        (["shell", f"{HANDLE}y"], 3, "unknown app"),
        (["stacks", HANDLE, "main/7"], 3, "has no replica 7"),
    ],
    ids=str,
)
def test_mistakes_are_named(cli: Cli, words: list[str], code: int, said: str) -> None:
    """Before anything is run."""
    submitted(Hold(), app_id="x")
    done = cli(*words)
    assert done.code == code
    assert said in done.err


@pytest.mark.parametrize("words", [["exec", HANDLE, "main", "true"], ["shell", HANDLE], ["stacks", HANDLE]])
def test_an_app_that_has_ended_cannot_be_entered(cli: Cli, words: list[str]) -> None:
    """The message says how it stands."""
    ended(submitted(Exit(3), app_id="x"))
    done = cli(*words)
    assert done.code == 2
    assert "cannot go inside main/0" in done.err
    assert "it is FAILED" in done.err


def test_an_app_of_another_host_cannot_be_entered(cli: Cli, tmp_path: Path) -> None:
    """A process of that number here is somebody else's."""
    submitted(Hold(), app_id="x")
    with get_runner() as runner:
        wait_until(lambda: (s := runner.status(HANDLE)) and s.roles[0].replicas[0].started_at, 240)
    spec = tmp_path / "state" / "local_cwd" / "torchx" / "x" / "spec.json"
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "boot_id": "another"}))
    done = cli("exec", HANDLE, "main", "true")
    assert done.code == 4
    assert "it runs on another host" in done.err


# --- stacks

PYTHON = """
import subprocess, sys, threading, time
def wait_for_others(): time.sleep(600)
child = "import time\\ndef load_data(): time.sleep(600)\\nload_data()"
subprocess.Popen([sys.executable, "-c", child])
threading.Thread(target=wait_for_others, daemon=True).start()
print("up", flush=True)
wait_for_others()
"""


def test_stacks_of_every_process_and_thread(cli: Cli) -> None:
    """Of all replicas, or of one; by py-spy, which is beside this program."""
    _submit("", entrypoint=sys.executable, args=["-c", PYTHON], num_replicas=2)
    with get_runner() as runner:
        wait_until(lambda: [s.usage.processes for s in runner.usage(HANDLE)] == [2, 2], 240)

    def dumped() -> str:
        done = cli("stacks", HANDLE)
        assert done.code == 0, done.err
        return done.out if done.out.count("load_data (") == 2 else ""

    out = wait_until(dumped, 240)  # the children may still be starting
    assert out.count("wait_for_others (") == 4
    assert out.index("main/0") < out.index("main/1")
    assert cli("stacks", HANDLE, "main/1").out.count("wait_for_others (") == 2


def test_without_py_spy_the_error_says_how_to_install_it(
    cli: Cli, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """py-spy is found neither in the replica's PATH nor beside this program: the error says so."""
    bare = work / "bare" / "python"
    bare.parent.mkdir()
    bare.symlink_to(Path(sys.executable).resolve())
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(bare))
    _submit(STAY)
    done = cli("stacks", HANDLE)
    assert done.code == 127
    assert "pip install py-spy" in done.err


def test_a_replica_without_python_has_no_stacks(cli: Cli) -> None:
    """It is said, and is no error."""
    _submit(STAY)
    done = cli("stacks", HANDLE, "main")
    assert (done.code, done.out) == (0, "")
    assert "no Python runs in the replica" in done.err
