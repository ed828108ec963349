"""TorchX's local scheduler behind the bridge: what it does badly by itself it does well here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from torchx_core import AppDef, AppState, Role, Runner, get_runner
from torchx_core.compat.request import BridgeRequest
from torchx_core.errors import AppIdConflictError, InvalidAppError, InvalidInputError, SubmitFailedError
from torchx_core.schedulers import CancelOutcome
from torchx_core.testing import wait_until

BACKEND = "torchx:local_cwd"


def sh(script: str, *, num_replicas: int = 1, name: str = "r") -> Role:
    """Return a role that runs the script."""
    return Role(name, "", entrypoint="sh", args=["-c", script], num_replicas=num_replicas)


@pytest.fixture
def runner(request: pytest.FixtureRequest) -> Runner:
    """Return a runner with a session of the test's own."""
    return get_runner(f"processes-{abs(hash(request.node.nodeid))}")


def test_the_signal_handlers_stay_as_they_are(runner: Runner) -> None:
    """Made in the main thread, TorchX's scheduler would replace them for good."""
    assert threading.current_thread() is threading.main_thread()
    before = [signal.getsignal(number) for number in signal.valid_signals()]
    handle = runner.run(AppDef("a", [sh("exit 0")]), BACKEND)
    runner.wait(handle)
    runner.delete(handle)
    assert [signal.getsignal(number) for number in signal.valid_signals()] == before


def test_no_final_line_is_lost(runner: Runner) -> None:
    """Of sixteen replicas, each tailed by a thread, while others ask how the app is."""
    app = AppDef("many", [sh("for i in 1 2 3; do echo $$i; echo e$$i >&2; done; echo last", num_replicas=16)])
    handle = runner.run(app, BACKEND)
    lines: dict[int, list[str]] = {}

    def tail(k: int) -> None:
        lines[k] = list(runner.log_lines(handle, "r", k, should_tail=True))

    threads = [threading.Thread(target=tail, args=(k,)) for k in range(16)]
    for thread in threads:
        thread.start()
    runner.wait(handle)
    for thread in threads:
        thread.join()
    runner.delete(handle)
    expected = sorted(["1\n", "2\n", "3\n", "e1\n", "e2\n", "e3\n", "last\n"])
    assert {k: sorted(found) for k, found in lines.items()} == dict.fromkeys(range(16), expected)


def test_long_lines_are_whole(runner: Runner) -> None:
    """TorchX by itself tears them every 64,000 characters."""
    script = "import sys\nfor i in range(30): sys.stdout.write(str(i % 10) * 99_999 + chr(10))"
    app = AppDef("long", [Role("r", "", entrypoint=sys.executable, args=["-c", script])])
    handle = runner.run(app, BACKEND)
    lines = list(runner.log_lines(handle, "r", should_tail=True))
    runner.delete(handle)
    assert lines == [str(i % 10) * 99_999 + "\n" for i in range(30)]


def test_a_program_that_cannot_start_leaves_nothing(runner: Runner) -> None:
    """TorchX by itself leaves the replicas that it had started, and forgets them."""
    marker = f"sleep {os.getpid()}1"
    app = AppDef("half", [sh(f"exec {marker}"), Role("bad", "", entrypoint="/no/such/program")])
    with pytest.raises(SubmitFailedError, match=r"FileNotFoundError.*/no/such/program"):
        runner.run(app, BACKEND, app_id="half")
    assert (
        subprocess.run(["pgrep", "-f", f"^{marker}"], check=False, stdout=subprocess.DEVNULL).returncode == 1
    )
    assert runner.list(BACKEND) == []
    app.roles.pop()
    app.roles[0].args = ["-c", "exit 0"]
    handle = runner.run(app, BACKEND, app_id="half")  # the id is free
    runner.wait(handle)
    runner.delete(handle)


@pytest.mark.slow
def test_finished_apps_are_no_burden(runner: Runner) -> None:
    """After a hundred that nobody has looked at, TorchX by itself refuses the next."""
    app = AppDef("a", [Role("r", "", entrypoint="true")])
    handles = [runner.run(app, BACKEND) for _ in range(101)]
    for handle in handles:
        runner.wait(handle)
        runner.delete(handle)


def test_nothing_stays_on_disk(runner: Runner, tmp_path: Path) -> None:
    """A dry run makes no directory, and a deleted app leaves none, wherever its logs were."""
    before = set(Path(tempfile.gettempdir()).iterdir())
    app = AppDef("a", [sh("echo hello")])
    runner.dryrun(app, BACKEND)
    assert set(Path(tempfile.gettempdir()).iterdir()) == before
    for cfg in ({}, {"log_dir": str(tmp_path / "logs")}):
        handle = runner.run(app, BACKEND, cfg)
        runner.wait(handle)
        status = runner.status(handle)
        assert status is not None
        assert (Path(status.roles[0].replicas[0].log_dir) / "stdout.log").read_text() == "hello\n"
        runner.delete(handle)
    assert set(Path(tempfile.gettempdir()).iterdir()) == before
    assert not list((tmp_path / "logs").rglob("stdout.log"))


def test_what_it_would_ignore_is_refused(runner: Runner) -> None:
    """Retries and mounts; TorchX by itself says nothing and does nothing."""
    role = sh("exit 1")
    role.max_retries = 3
    with pytest.raises(InvalidAppError, match=r"roles\[0\].max_retries: torchx:local_cwd does not retry: 3"):
        runner.run(AppDef("a", [role]), BACKEND)


def test_it_is_submitted_once_within_this_process(runner: Runner) -> None:
    """The second submit attaches, another request for the id is refused."""
    app = AppDef("a", [sh("echo once")])
    handle = runner.run(app, BACKEND, app_id="one")
    with get_runner(runner.name) as other:
        assert other.run(app, BACKEND, app_id="one") == handle
        with pytest.raises(AppIdConflictError, match="num_replicas"):
            other.run(AppDef("a", [sh("echo once", num_replicas=2)]), BACKEND, app_id="one")
    assert list(runner.log_lines(handle, "r", should_tail=True)) == ["once\n"]
    runner.delete(handle)


def test_the_whole_process_group_ends(runner: Runner, tmp_path: Path) -> None:
    """What ignores SIGTERM, and what the program left behind, ends with it."""
    pid = tmp_path / "pid"
    handle = runner.run(
        AppDef("a", [sh(f"trap '' TERM; sh -c 'echo $$$$ >{pid}; exec sleep 99'; sleep 99")]), BACKEND
    )
    wait_until(lambda: pid.exists() and pid.read_text(), 240)
    assert runner.cancel(handle, grace_s=0.1, reason="enough") is CancelOutcome.REQUESTED
    status = runner.wait(handle)
    assert status is not None
    assert (status.state, status.msg) == (AppState.CANCELLED, "enough")
    wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), 240)
    runner.delete(handle)


def test_an_error_file_that_is_no_json_breaks_nothing(runner: Runner) -> None:
    """TorchX by itself could neither describe nor cancel such an app any more."""
    handle = runner.run(AppDef("a", [sh("echo oops >$$TORCHELASTIC_ERROR_FILE; exit 3")]), BACKEND)
    status = runner.wait(handle)
    assert status is not None
    assert "oops" in status.failure_summary()
    assert status.roles[0].replicas[0].exit_code == 3
    runner.delete(handle)


@pytest.mark.parametrize("make", ["mkfifo $$F", "ln -s /dev/zero $$F", "truncate -s 1T $$F"])
def test_an_error_file_that_is_no_file_of_a_sane_size(runner: Runner, make: str) -> None:
    """A pipe, a device or an endless file hangs nobody, and the exit code is told."""
    app = AppDef("a", [sh(f"F=$$TORCHELASTIC_ERROR_FILE; {make}; exit 3")])
    handle = runner.run(app, BACKEND)
    status = runner.wait(handle)
    assert status is not None
    assert status.roles[0].replicas[0].exit_code == 3
    runner.delete(handle)


def test_a_handle_is_unknown_in_another_process(runner: Runner) -> None:
    """It says so; TorchX by itself would silently not cancel it, for example."""
    handle = runner.run(AppDef("a", [sh("sleep 99")]), BACKEND)
    program = (
        "from torchx_core import get_runner; import sys; runner = get_runner(); h = sys.argv[1]\n"
        "print(runner.status(h), runner.cancel(h).name)\n"
        "try: runner.follow(h)\nexcept Exception as err: print(type(err).__name__)"
    )
    told = subprocess.check_output([sys.executable, "-c", program, handle], text=True).split()
    assert told == ["None", "UNKNOWN_APP", "UnknownAppException"]
    runner.cancel(handle, grace_s=0)
    runner.wait(handle)
    runner.delete(handle)


def test_the_app_ends_with_its_process(tmp_path: Path) -> None:
    """As with TorchX; its log directory goes as well."""
    pid = tmp_path / "pid"
    program = (
        "from torchx_core import *; import sys, os\n"
        "r = Role('r', '', entrypoint='sh', args=['-c', f'echo $$$$ >{sys.argv[1]}; exec sleep 99'])\n"
        f"get_runner('ends').run(AppDef('a', [r]), '{BACKEND}')\n"
        "while not (os.path.exists(sys.argv[1]) and open(sys.argv[1]).read()): pass\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, pid], check=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    assert list(tmp_path.iterdir()) == [pid]


def test_a_time_window_is_refused(runner: Runner) -> None:
    """No line bears its time, so a window would leave out lines that belong into it."""
    handle = runner.run(AppDef("a", [sh("echo hello")]), BACKEND)
    with pytest.raises(InvalidInputError, match="does not tell when a line was written"):
        runner.log_lines(handle, "r", since=datetime.now(UTC))
    runner.wait(handle)
    runner.delete(handle)


def test_secrets_are_not_shown(runner: Runner) -> None:
    """TorchX's own rendering of the request has every variable's value."""
    role = sh("exit 0")
    role.env = {"WANDB_API_KEY": "k-1234567", "PLAIN": "visible"}
    shown = str(runner.dryrun(AppDef("a", [role]), BACKEND))
    assert "k-1234567" not in shown
    assert "visible" in shown


def test_the_request_is_torchxs_own(runner: Runner) -> None:
    """Macros and ``$$`` are TorchX's to fill in, but for the app id; what is changed in it is submitted."""
    role = sh("echo $$GREETING ${replica_id} ${app_id} $$$$")
    role.env = {"GREETING": "hello"}
    info = runner.dryrun(AppDef("a", [role]), BACKEND, app_id="mine")
    native: Any = cast(BridgeRequest, info.request).native.request
    (replica,) = native.role_params["r"]
    assert replica.args == ["sh", "-c", "echo $GREETING 0 mine $$"]
    replica.env["GREETING"] = "goodbye"
    handle = runner.schedule(info)
    (line,) = runner.log_lines(handle, "r", should_tail=True)
    assert line.startswith("goodbye 0 mine ")
    runner.delete(handle)
