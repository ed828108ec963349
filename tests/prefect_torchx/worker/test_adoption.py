"""Which flow runs a worker takes on."""

from __future__ import annotations

from uuid import uuid4

from prefect.client.schemas.objects import FlowRun

from prefect_torchx.worker.adoption import WORKER_LABEL, Crew

CREW = Crew(me="me", others={"colleague"})


def _run_of(worker: str | None) -> FlowRun:
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    if worker:
        run.labels[WORKER_LABEL] = worker
    return run


def test_orphans_are_mine_without_care_and_those_of_the_departed() -> None:
    """What a colleague has, what I hold, and what nobody has marked yet is none."""
    mine, held, departed, other, unmarked = map(_run_of, ["me", "me", "gone", "colleague", None])
    active = [mine, held, departed, other, unmarked]
    assert list(CREW.orphans(active, {held.id})) == [mine, departed]


def test_a_worker_of_my_name_was_me() -> None:
    """Prefect takes workers of one name for one worker."""
    assert CREW.is_mine(_run_of("me"))
    assert not CREW.is_mine(_run_of("gone"))
    assert not CREW.is_mine(_run_of(None))
