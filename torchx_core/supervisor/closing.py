"""Ends an app whose supervisor is gone: kills what is left and writes the final record in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import time

from torchx_core.supervisor import machine
from torchx_core.supervisor.final import RESERVED, FinalRecord, read_final
from torchx_core.supervisor.journal import read_journal
from torchx_core.supervisor.plan import Plan, fresh_state
from torchx_core.supervisor.reading import is_there
from torchx_core.supervisor.records import CANCEL, FINAL, JOURNAL, REPORT_PIPE, read_json


def state_on_disk(app_dir: str, plan: Plan) -> machine.State:
    """Return the state that the journal tells."""
    return machine.replay(fresh_state(plan), read_journal(os.path.join(app_dir, JOURNAL)))


def has_begun(app_dir: str) -> bool:
    """Return whether the app ever had a supervisor."""
    if any(is_there(os.path.join(app_dir, name)) for name in (RESERVED, FINAL)):
        return True
    return next(read_journal(os.path.join(app_dir, JOURNAL)), None) is not None


def unclosed_attempts(app_dir: str, state: machine.State) -> Iterator[tuple[int, int]]:
    """Yield replica and attempt of all that a dead supervisor had not let go of: output may be missing.

    Its journal cannot tell: it says that an attempt was started after that, and that it ended before its last
    lines are taken. So a replica's newest attempt may be one that the journal takes for due, and then the one
    before may still be open.
    """
    for index, replica in enumerate(state.replicas):
        for attempt in (replica.attempt - 1, replica.attempt):
            if is_there(os.path.join(app_dir, REPORT_PIPE.format(replica=index, attempt=attempt))):
                yield index, attempt


def close_lost(app_dir: str, plan: Plan, why: str) -> machine.State:
    """Write and return the end of an app that nobody serves any more; every process of it must be dead.

    On a full disk the record is left to the next reader, who comes to the same end.
    """
    ended = read_final(app_dir)
    if ended is None:
        ended = _lost(app_dir, plan, why)
        record = FinalRecord(app_dir, len(plan.replicas))
        try:
            record.write(ended)
        finally:
            record.close()
    return read_final(app_dir) or ended


def _lost(app_dir: str, plan: Plan, why: str) -> machine.State:
    state = state_on_disk(app_dir, plan)
    if state.phase == machine.ENDED:  # it ended, and only the final record was not written any more
        return state
    cancel_request = read_json(os.path.join(app_dir, CANCEL))
    if cancel_request and not state.outcome:
        asked = machine.StopAsked(time(), machine.CANCELLED, str(cancel_request.get("msg")), 0.0)
        state = machine.step(state, asked)[0]
    return machine.step(state, machine.Lost(time(), why))[0]
