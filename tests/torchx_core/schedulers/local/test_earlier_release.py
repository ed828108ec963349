"""An app of the release before this one, of which only the record is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest
from earlier_records import WORDS, asked_locally, spec

from torchx_core import AppState, Runner
from torchx_core.errors import AppIdConflictError
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.local import LocalRequest
from torchx_core.schedulers.local.record import boot_id
from torchx_core.supervisor.plan import encode_plan
from torchx_core.supervisor.records import ALIVE, CTL, LOCK, SPEC, TIMELINE


def write_record(runner: Runner, place: Path) -> None:
    """Write what the release before had written when its submitter died."""
    info = runner.dryrun_component("utils.sh", WORDS, "local_cwd", {}, app_id="one")
    plan = encode_plan(cast("LocalRequest", info.request).plan)
    place.mkdir(parents=True, mode=0o700)
    (place / SPEC).write_bytes(spec(asked_locally("s"), plan=plan, boot_id=boot_id()))
    for name in (LOCK, TIMELINE):
        (place / name).touch(0o600)
    for name in (ALIVE, CTL):
        os.mkfifo(place / name)


def test_a_local_app_of_the_release_before_goes_on(runner: Runner, state_dir: Path) -> None:
    """A repeated submit starts what the earlier release wrote; status, lines and a late cancel are told."""
    write_record(runner, state_dir / "local_cwd" / "s" / "one")
    handle = runner.run_component("utils.sh", WORDS, "local_cwd", {}, app_id="one")
    assert [line.text for batch in runner.follow(handle) for line in batch.lines()] == ["hello"]
    status = runner.status(handle)
    assert status
    assert status.state == AppState.SUCCEEDED
    assert runner.cancel(handle) == CancelOutcome.ALREADY_TERMINAL
    with pytest.raises(AppIdConflictError, match="args"):
        runner.run_component("utils.sh", [*WORDS, "more"], "local_cwd", {}, app_id="one")
