"""Containers of one host that share the state directory: with its own processes, network and name each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from socket import gethostname

import pytest
from local_apps import app_of, running

from torchx_core import AppState, Runner
from torchx_core.testing import wait_until

NAMED = ["sh", "-c", 'hostname other; exec "$@"', "sh"]
OTHER = ["unshare", "--map-root-user", "--pid", "--kill-child", "--mount-proc", "--net", "--uts", "--ipc"]


@pytest.fixture(autouse=True)
def share_the_state(monkeypatch: pytest.MonkeyPatch, state_dir: Path) -> None:
    """Tell the other containers where the apps are; say where a host allows none."""
    monkeypatch.setenv("TORCHX_STATE_DIR", str(state_dir))
    done = subprocess.run([*OTHER, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")


def there(*words: str, until: str = "") -> list[str]:
    """Return the lines that the program prints in another container, up to a certain one."""
    command = [*OTHER, *NAMED, sys.executable, "-m", "torchx_core", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if until and lines[-1] == until:
                process.kill()
        return lines


def test_an_app_is_followed_from_another_container(runner: Runner, tmp_path: Path) -> None:
    """To its end, each line once, also those that come while it is followed."""
    script = f"seq 100; until [ -e {tmp_path}/go ]; do sleep 0.1; done; seq 101 200; echo end"
    handle = runner.run(app_of("sh", "-c", script), "local_cwd")
    assert there("log", "-f", handle, until="r/0 100") == [f"r/0 {i}" for i in range(1, 101)]
    (tmp_path / "go").touch()
    assert there("log", "-f", handle) == [*(f"r/0 {i}" for i in range(1, 201)), "r/0 end"]
    status = json.loads("\n".join(there("status", handle, "--json")))
    [replica] = status["roles"][0]["replicas"]
    assert (status["state"], replica["hostname"]) == ("SUCCEEDED", gethostname())


def test_an_app_is_cancelled_from_another_container(runner: Runner) -> None:
    """It hears of it at once, and its own container sees it gone."""
    handle = runner.run(
        app_of("sh", "-c", "trap 'echo bye; exit 1' TERM; echo up; sleep 600 & wait"), "local_cwd"
    )
    assert there("log", "-f", handle, until="r/0 up") == ["r/0 up"]
    there("cancel", handle)
    status = runner.wait(handle, timeout_s=240)
    assert status is not None
    assert status.state is AppState.CANCELLED
    assert there("log", handle) == ["r/0 up", "r/0 bye"]


def test_an_app_ends_with_its_container(runner: Runner) -> None:
    """Whoever looks from outside is told so, and may start it again."""
    run = f"{sys.executable} -m torchx_core run -s local_cwd --session s --detach utils.sh sleep 618.7"
    command = [*OTHER, *NAMED, "sh", "-c", f"{run} && exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as container:
        assert container.stdout is not None
        handle = container.stdout.readline().strip()
        wait_until(lambda: (s := runner.status(handle)) and s.state is AppState.RUNNING, 240)
        container.kill()
    status = wait_until(lambda: (s := runner.status(handle)) and s.is_terminal() and s, 240)
    assert (status.state, status.msg) == (AppState.FAILED, "its supervisor and guardian were both killed")
    wait_until(lambda: not running("618.7"), 240)  # they end one after the other
