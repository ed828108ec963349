"""What TorchX's pages say and is otherwise here: "argued improvements" in docs/torchx-compat.md."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from torchx_sides import told

from torchx_core import AppDef, Role, Runner, get_runner
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.docker_scheduler import DockerScheduler
from torchx_core.schedulers.local_scheduler import create_scheduler
from torchx_core.specs import (
    AppState,
    AppStatus,
    ReplicaStatus,
    RetryPolicy,
    RoleStatus,
    parse_app_handle,
    runopts,
)

SUBMITTER = """
import sys, time
from torchx_core import AppDef, Role, get_runner
runner = get_runner(state_dir=sys.argv[1])
app = AppDef("a", [Role("r", "", entrypoint="sh", args=["-c", "sleep 1; echo survived"])])
print(runner.run(app, "local_cwd"), flush=True)
time.sleep(600)
"""


def run(runner: Runner, *argv: str, **role: object) -> str:
    """Run an app of one role; return its handle."""
    fields: dict[str, object] = {
        "name": "r",
        "image": "",
        "entrypoint": argv[0],
        "args": list(argv[1:]),
        **role,
    }
    return runner.run(AppDef("a", [Role(**fields)]), "local_cwd")  # type: ignore[arg-type]  # what Role takes


def test_apps_outlive_their_submitter(tmp_path: Path) -> None:
    """SIGTERM ends the submitter and not the app; another process has its log and its end."""
    submitter = subprocess.Popen(
        [sys.executable, "-c", SUBMITTER, tmp_path], stdout=subprocess.PIPE, text=True
    )
    assert submitter.stdout is not None
    handle = submitter.stdout.readline().strip()
    submitter.terminate()
    submitter.communicate()
    with get_runner(state_dir=str(tmp_path)) as runner:
        assert list(runner.log_lines(handle, "r", should_tail=True)) == ["survived\n"]


def test_retries_happen_on_this_host(tmp_path: Path) -> None:
    """As often as the role says."""
    with get_runner(state_dir=str(tmp_path)) as runner:
        text = "echo $$TORCHX_ATTEMPT; exit 1"
        handle = run(runner, "sh", "-c", text, max_retries=1, retry_policy=RetryPolicy.REPLICA)
        status = runner.wait(handle)
        assert list(runner.log_lines(handle, "r")) == ["0\n", "1\n"]
    assert status is not None
    assert (status.state, status.num_restarts) == (AppState.FAILED, 1)


def test_a_replica_that_fails_for_good_ends_a_docker_app() -> None:
    """`test_contract` sees it on an engine; what a replica's own restart needs is in its request."""
    assert DockerScheduler.capabilities.gang
    assert DockerScheduler.capabilities.retries


def test_all_apps_are_kept(tmp_path: Path) -> None:
    """However small the cache that was asked for; another scheduler object knows them, too."""
    with closing(create_scheduler("s", cache_size=1, state_dir=str(tmp_path))) as scheduler:
        app_ids = [scheduler.submit(AppDef("a", [Role("r", "", entrypoint="true")])) for _ in range(3)]
        for app_id in app_ids:
            list(scheduler.log_iter(app_id, "r", should_tail=True))
    with closing(create_scheduler("s", cache_size=1, state_dir=str(tmp_path))) as other:
        assert [app.app_id for app in other.list()] == app_ids


def test_a_cancel_says_what_it_came_to(tmp_path: Path) -> None:
    """That nothing was done, above all."""
    with get_runner(state_dir=str(tmp_path)) as runner:
        assert runner.cancel("local_cwd://torchx/nothing") is CancelOutcome.UNKNOWN_APP
        handle = run(runner, "true")
        runner.wait(handle)
        assert runner.cancel(handle) is CancelOutcome.ALREADY_TERMINAL


def test_an_error_leads_with_what_failed() -> None:
    """The replica and its exit code."""
    replica = ReplicaStatus(3, AppState.FAILED, "trainer", "host", exit_code=9)
    status = AppStatus(AppState.FAILED, roles=[RoleStatus("trainer", [replica])])
    with pytest.raises(Exception, match=r"^replica trainer/3 failed with exit code 9"):
        status.raise_for_status()


@pytest.mark.parametrize(
    ("value", "type_", "is_one"),
    [(True, int, False), (1, float, True), ({}, list[str], False), ([], dict[str, str], False)],
)
def test_a_value_has_its_type(value: object, type_: object, is_one: bool) -> None:
    """And no other."""
    assert runopts.is_type(value, type_) == is_one


@pytest.mark.parametrize("handle", ["a://b://c/d", "local://s/a/b", "local://s/a\nb", " local://s/a"])
def test_a_handle_has_three_parts(handle: str) -> None:
    """Nothing is guessed."""
    assert told(parse_app_handle, handle) == "raises ValueError"
