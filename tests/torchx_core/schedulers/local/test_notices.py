"""What this host cannot do for a replica is said once."""

from __future__ import annotations

from torchx_core.schedulers import ReplicaChanged
from torchx_core.schedulers.local import view
from torchx_core.supervisor import machine

NOTICE = "not enforced on this host: memory limit of 64 MB"


def test_a_notice_comes_with_the_start_alone() -> None:
    """Not with the end as well; the status has it from then on."""
    state = machine.State((machine.Replica("r", 0, "REPLICA", 0),))
    shown: list[tuple[str, str]] = []
    events: list[machine.Event] = [
        machine.Began(1.0, 1),
        machine.Started(2.0, 0, 0, 7, NOTICE),
        machine.Exited(3.0, 0, 0, 0, None),
    ]
    for event in events:
        before, state = state, machine.fold(state, event)
        changes = view.changes(event, before, state)
        shown += [(e.state.name, e.msg) for e in changes if isinstance(e, ReplicaChanged)]
    assert shown == [("RUNNING", NOTICE), ("SUCCEEDED", "")]
    assert state.replicas[0].notice == NOTICE
