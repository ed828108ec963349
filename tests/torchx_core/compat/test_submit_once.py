"""A submit through TorchX is made once, whoever dies at whichever moment, as far as the backend can tell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path
from typing import Any, cast

import pytest

from torchx_core import AppDef, AppState, Role, Runner, get_runner
from torchx_core.compat.disk import DiskStore
from torchx_core.compat.request import BridgeRequest
from torchx_core.errors import (
    AppIdConflictError,
    SubmitFailedError,
    SubmitOutcomeUnknownError,
    UnknownAppException,
)
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.difference import comparable_request
from torchx_core.testing import wait_until

BACKEND = "torchx:shelf"
APP = AppDef("a", [Role("r", "", entrypoint="echo", args=["hello"], num_replicas=2)])

SUBMIT = """
import sys
from torchx_core import AppDef, Role, get_runner
role = Role("r", "", entrypoint="echo", args=["hello"], num_replicas=2)
get_runner("s", state_dir=sys.argv[1]).run(AppDef("a", [role]), "torchx:shelf", app_id="one")
"""


@pytest.fixture
def new_runner(shelf: Path, tmp_path: Path) -> Callable[[], Runner]:
    """Return what makes a runner on the same shelf and state directory."""
    del shelf
    return lambda: get_runner("s", state_dir=str(tmp_path / "state"))


def apps_on(shelf: Path) -> int:
    """Return how many apps TorchX submitted."""
    return len(list(shelf.iterdir()))


def submit_and_die(tmp_path: Path, moment: str) -> None:
    """Submit from a process that is killed at that moment of TorchX's ``schedule``."""
    path = os.pathsep.join([str(tmp_path / "site"), str(Path(__file__).parents[2] / "support")])
    done = subprocess.run(
        [sys.executable, "-c", SUBMIT, tmp_path / "state"],
        env={**os.environ, "PYTHONPATH": path, "TORCHX_SHELF_DIES": moment},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def test_one_of_many_submits(new_runner: Callable[[], Runner], shelf: Path) -> None:
    """Eight at once, the others attach; another request for the id is refused."""

    def submit(_number: int) -> str:
        return new_runner().run(APP, BACKEND, app_id="one")

    with ThreadPoolExecutor(8) as pool:
        handles = set(pool.map(submit, range(8)))
    assert handles == {"torchx:shelf://s/one"}
    assert apps_on(shelf) == 1
    with pytest.raises(AppIdConflictError, match="num_replicas: 2 -> 1"):
        new_runner().run(
            AppDef("a", [Role("r", "", entrypoint="echo", args=["hello"])]), BACKEND, app_id="one"
        )


def test_the_surroundings_are_no_part_of_the_request(
    new_runner: Callable[[], Runner], shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second submit from another app's environment and another directory finds what is there."""
    handle = new_runner().run(APP, BACKEND, app_id="one")
    for name in ("TORCHX_PARENT_RUN_ID", "TORCHX_JOB_ID", "LOGLEVEL", "USER", "TZ"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    with chdir(tmp_path):
        assert new_runner().run(APP, BACKEND, app_id="one") == handle
    assert apps_on(shelf) == 1


@pytest.mark.parametrize("moment", ["before", "half", "after"])
def test_a_submitter_that_dies_is_settled_by_the_next_one(
    new_runner: Callable[[], Runner], shelf: Path, tmp_path: Path, moment: str
) -> None:
    """What was submitted is found by the id that was written down before; what was not is begun anew."""
    submit_and_die(tmp_path, moment)
    with new_runner() as runner:
        before = runner.status("torchx:shelf://s/one")
        assert before is not None
        assert before.state is AppState.UNKNOWN
        assert "submit it again" in before.msg
        handle = runner.run(APP, BACKEND, app_id="one")
        assert [line for k in (0, 1) for line in runner.log_lines(handle, "r", k, should_tail=True)] == 2 * [
            "hello\n"
        ]
    assert apps_on(shelf) == (2 if moment == "half" else 1)


def test_what_nobody_can_settle_says_so(
    new_runner: Callable[[], Runner], shelf: Path, tmp_path: Path
) -> None:
    """Where TorchX does not say beforehand what the id will be; deleting the app frees the id."""
    with new_runner() as runner:
        info = runner.dryrun(APP, BACKEND, app_id="one")
        request = cast(BridgeRequest, info.request)
        asked = {
            **comparable_request(request.app, request.cfg),
            "incarnation": "x",
            "name": "a",
            "created_at": 1.0,
        }
        record = DiskStore(str(tmp_path / "state"), BACKEND, "s").create("one", asked)
        record.put("attempt.1", {"native_id": ""})
        with pytest.raises(
            SubmitOutcomeUnknownError, match=r"'one'.*its submitter died.*has no name to look for"
        ):
            runner.schedule(info)
        assert apps_on(shelf) == 0
        with pytest.raises(Exception, match="cancel it later"):
            runner.cancel("torchx:shelf://s/one")
        runner.delete("torchx:shelf://s/one")
        runner.schedule(info)
    assert apps_on(shelf) == 1


def test_a_submit_that_fails_is_taken_back(
    new_runner: Callable[[], Runner], shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had been submitted of it is cancelled, the error says why, and the id is free."""
    monkeypatch.setenv("TORCHX_SHELF_DIES", "raise")
    sleeps = AppDef("a", [Role("r", "", entrypoint="sleep", args=["99"], num_replicas=2)])
    with new_runner() as runner:
        with pytest.raises(SubmitFailedError, match="RuntimeError: the shelf is full"):
            runner.run(sleeps, BACKEND, app_id="one")
        assert runner.list(BACKEND) == []
        monkeypatch.delenv("TORCHX_SHELF_DIES")
        assert runner.wait(runner.run(APP, BACKEND, app_id="one")) is not None
    assert (
        apps_on(shelf) == 2
    )  # one of them cancelled: no process is left, which every test here is checked for


@pytest.mark.parametrize(
    ("how", "said"),
    [("lost", "Connection aborted"), ("reset", "Connection reset by peer"), ("killed", "SIGKILL")],
)
def test_a_lost_answer_is_settled_by_the_next_submit(
    new_runner: Callable[[], Runner], shelf: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: str
) -> None:
    """What was submitted is neither forgotten nor cancelled: the error says so, and the app is found."""
    monkeypatch.setenv("TORCHX_SHELF_DIES", how)
    with new_runner() as runner:
        with pytest.raises(SubmitOutcomeUnknownError, match=said):
            runner.run(APP, BACKEND, app_id="one")
        monkeypatch.delenv("TORCHX_SHELF_DIES")
        handle = runner.run(APP, BACKEND, app_id="one")
        status = runner.wait(handle)
        assert status is not None
        assert status.state is AppState.SUCCEEDED
    assert apps_on(shelf) == 1


def test_a_lost_answer_is_judged_apart_from_what_the_caller_handles(
    new_runner: Callable[[], Runner], shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller may submit while it handles an error of its own, which says nothing about the submit."""
    monkeypatch.setenv("TORCHX_SHELF_DIES", "lost")
    with new_runner() as runner:
        try:
            raise ConnectionRefusedError("of the caller's cache")  # noqa: TRY301  # Python chains to it
        except ConnectionRefusedError:
            with pytest.raises(SubmitOutcomeUnknownError):
                runner.run(APP, BACKEND, app_id="one")
        monkeypatch.delenv("TORCHX_SHELF_DIES")
        assert runner.wait(runner.run(APP, BACKEND, app_id="one")) is not None
    assert apps_on(shelf) == 1


def test_a_connection_that_nobody_accepts_is_a_refusal(
    new_runner: Callable[[], Runner], shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was submitted then, and the id is free."""
    del shelf
    monkeypatch.setenv("TORCHX_SHELF_DIES", "refused")
    with new_runner() as runner:
        with pytest.raises(SubmitFailedError, match="no way there"):
            runner.run(APP, BACKEND, app_id="one")
        assert runner.list(BACKEND) == []


def test_the_end_is_remembered(new_runner: Callable[[], Runner], shelf: Path) -> None:
    """The backend may have forgotten the app; one whose end nobody saw is unknown then."""
    with new_runner() as runner:
        seen = runner.run(APP, BACKEND, app_id="seen")
        runner.wait(seen)
        unseen = runner.run(APP, BACKEND, app_id="unseen")
        native: Any = runner.scheduler(BACKEND).describe_native("unseen")
        (shelf / native["app_id"]).rename(shelf.parent / "gone")
        status = runner.status(seen)
        assert status is not None
        assert status.state is AppState.SUCCEEDED
        assert runner.status(unseen) is None
        assert runner.cancel(unseen) is CancelOutcome.UNKNOWN_APP
        runner.delete(unseen)
        assert [row.app_id for row in runner.list(BACKEND)] == ["seen"]


def test_an_app_that_is_deleted_meanwhile_has_no_new_owner(
    new_runner: Callable[[], Runner], tmp_path: Path
) -> None:
    """Whoever waited to take it over is told that there is none."""
    store = DiskStore(str(tmp_path / "state"), BACKEND, "s")
    with new_runner() as runner, ThreadPoolExecutor(1) as pool:
        handle = runner.schedule(runner.dryrun(APP, BACKEND, app_id="one"))
        record = store.find("one")
        assert record
        with record.locked("owner"):
            taken = pool.submit(runner.take_over, handle, "me")
            wait_until(lambda: "-> FLOCK" in Path("/proc/locks").read_text(), 240)
            store.remove(record)
        with pytest.raises(UnknownAppException, match="one"):
            taken.result()
