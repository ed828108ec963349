"""An app that was submitted just now is looked at as one whose supervisor is about to begin."""

from __future__ import annotations

import fcntl
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from local_apps import wait_until_unserved

from torchx_core import Runner
from torchx_core.schedulers.local import liveness
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.supervisor import machine
from torchx_core.supervisor.records import FINAL, JOURNAL, LOCK


@dataclass(frozen=True)
class Held:
    """An app that somebody serves, who has journaled nothing; the journal of one like it is at hand."""

    record: AppRecord
    journal: Path

    def submitted_at(self, when: float) -> AppRecord:
        """Return its record with another time of submit."""
        return replace(self.record, content={**self.record.content, "created_at": when})

    def begin(self) -> None:
        """Write what a supervisor has written by the time its app runs."""
        shutil.copy(self.journal, self.record.path(JOURNAL))


@pytest.fixture
def held(runner: Runner, submit: Callable[..., str], state_dir: Path) -> Iterator[Held]:
    """An app that was just submitted, whose lock this process holds in place of a supervisor."""
    runner.wait(submit("true", app_id="ended"), timeout_s=240)
    wait_until_unserved(state_dir, "ended")  # what it removes as it ends would be missed while it is copied
    ended, place = state_dir / "local_cwd" / "s" / "ended", state_dir / "held"
    shutil.copytree(ended, place, ignore=shutil.ignore_patterns(FINAL, JOURNAL, "alive", "ctl"))
    record = AppRecord.read_from(str(place))
    assert record is not None
    with Path(record.path(LOCK)).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        app = Held(record, ended / JOURNAL)
        yield replace(app, record=app.submitted_at(time.time()))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No host is so slow that a look gives up."""
    monkeypatch.setattr(liveness, "BEGIN_S", 240.0)


@pytest.mark.usefixtures("patient")
def test_what_the_supervisor_does_first_is_waited_for(held: Held) -> None:
    """`reconcile`, which does not wait, sees the app as it is."""
    assert liveness.reconcile(held.record).phase == machine.SUBMITTED
    supervisor = threading.Timer(0.05, held.begin)
    supervisor.start()
    try:
        assert liveness.reconcile_begun(held.record).phase != machine.SUBMITTED
    finally:
        supervisor.join()


def test_it_is_not_waited_for_for_long(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that cannot run must not hold up who looks."""
    monkeypatch.setattr(liveness, "BEGIN_S", 0.01)
    assert liveness.reconcile_begun(held.record).phase == machine.SUBMITTED


@pytest.mark.usefixtures("patient")
@pytest.mark.timeout(120)
def test_an_app_of_long_ago_is_not_waited_for(held: Held) -> None:
    """Nor one that waits for GPUs: it has no reason to begin soon."""
    assert liveness.reconcile_begun(held.submitted_at(0)).phase == machine.SUBMITTED
    plan = {**held.record.content["plan"], "gpu_ids": ["0"]}  # type: ignore[dict-item]  # it is a JSON object
    waits = replace(held.record, content={**held.record.content, "plan": plan})
    assert liveness.reconcile_begun(waits).phase == machine.SUBMITTED
