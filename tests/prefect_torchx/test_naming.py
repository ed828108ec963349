from __future__ import annotations

import re
from dataclasses import replace

import pytest
from local_apps import app_of

from prefect_torchx.naming import FlowTry, Holder, Standing, Work, stand
from torchx_core.components import dist
from torchx_core.launch import AppRequest
from torchx_core.specs import AppDef, make_app_handle, parse_app_handle


def _work(run: str = "run", app: AppDef | None = None, scheduler: str = "local_cwd", **cfg: float) -> Work:
    request = AppRequest(app=app or app_of("true"), scheduler=scheduler, cfg=cfg, workspace=None)
    return Work.of_request(run, request)


def _holder(*tries: tuple[str, int] | tuple[str, int, int], **fields: object) -> Holder:
    flow_tries = tuple(FlowTry(each[0], *each[1:]) for each in tries or [("root", 2), ("part", 2)])
    given: dict[str, object] = {"flow_tries": flow_tries, "task_run_id": "t", "task_try": 2, "call": "c"}
    return Holder(**given | fields)  # type: ignore[arg-type]  # tests pass what it takes


def test_the_same_work_has_the_same_id_in_every_process() -> None:
    """A try in another process, on another day, finds the app of its predecessor."""
    assert _work().app_id() == "app-3653118ecdd4de14" == _work(app=app_of("true")).app_id()


@pytest.mark.parametrize(
    ("nodes", "app_id"), [("1x2", "train-3f98fb6e98cca88f"), ("2x1", "train-c14ef0a314cc5506")]
)
def test_another_release_finds_the_app(nodes: str, app_id: str) -> None:
    """Also one whose component has another program of its own in the command: these ids were given before."""
    assert _work(app=dist.torchrun("--lr", "1", script="train.py", j=nodes)).app_id() == app_id


@pytest.mark.parametrize(
    "other",
    [_work("other run"), _work(app=app_of("false")), _work(scheduler="slurm"), _work(grace_s=1.0)],
)
def test_different_work_has_a_different_id(other: Work) -> None:
    """The id depends on the run, the app, the scheduler and the options."""
    assert other.app_id() != _work().app_id()


def test_slots_and_attempts_have_ids_of_their_own() -> None:
    """Equal calls of one run, and the attempts of each, never share an app."""
    ids = {_work().app_id(slot=slot, attempt=attempt) for slot in range(3) for attempt in range(3)}
    assert len(ids) == 9


def test_the_latest_attempts_are_found_past_gaps() -> None:
    """Apps of other work do not count, nor does the order."""
    work, other = _work(), _work("other run")
    ids = [work.app_id(slot=slot, attempt=attempt) for slot, attempt in [(4, 11), (4, 2), (0, 0), (2, 1)]]
    assert work.latest_attempts([*ids, other.app_id(attempt=9), "by-hand"]) == {0: 0, 2: 1, 4: 11}
    assert work.latest_attempts([]) == {}


@pytest.mark.parametrize("name", ["", "--", "Ünïcode", "a'; rm -rf /", "x" * 300, "line\nbreak", "../.."])
def test_any_name_gives_a_legal_id(name: str) -> None:
    """The id is good for a directory, a container and a handle, whatever the app is called."""
    app_id = Work(name=name, identity="x").app_id(slot=7, attempt=41)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,49}", app_id)
    assert parse_app_handle(make_app_handle("local_cwd", "s", app_id)).app_id == app_id


def test_a_holder_reads_its_own_tokens() -> None:
    """What is written into an app's record is understood by every later try."""
    assert Holder.parse(_holder().token) == _holder() == Holder.parse(_holder().cancelled_token)
    outside = replace(_holder(), flow_tries=())
    assert Holder.parse(outside.token) == outside
    resumed = _holder(("root", 2, 3), ("part", 2))
    assert Holder.parse(resumed.token) == resumed


@pytest.mark.parametrize(
    ("owner", "standing"),
    [
        (None, Standing.FREE),
        (_holder().token, Standing.FREE),
        (_holder(task_try=1).token, Standing.FREE),
        (_holder(("root", 1), ("another", 9), task_run_id="another", task_try=9).token, Standing.FREE),
        (_holder(("root", 2), ("part", 1), task_run_id="another", task_try=9).token, Standing.FREE),
        (_holder(("root", 1, 3), task_run_id="another").token, Standing.FREE),
        (_holder(("root", 2, 1)).token, Standing.OVERTAKEN),
        (_holder(call="another").token, Standing.TAKEN),
        (_holder(task_run_id="another").token, Standing.TAKEN),
        (_holder(task_run_id="").token, Standing.TAKEN),
        (_holder(("root", 2), ("another", 1)).token, Standing.TAKEN),
        (_holder(task_try=1).cancelled_token, Standing.GIVEN_UP),
        (_holder(("root", 1)).cancelled_token, Standing.GIVEN_UP),
        (_holder(("root", 3)).cancelled_token, Standing.OVERTAKEN),
        (_holder(task_try=3).token, Standing.OVERTAKEN),
        (_holder(("root", 3)).token, Standing.OVERTAKEN),
        ("airflow-try-1-x", Standing.OVERTAKEN),
    ],
)
def test_who_holds_an_app_decides_what_a_call_may_do(owner: str | None, standing: Standing) -> None:
    """Earlier tries give way, calls of the same try keep apart, later tries and strangers are left alone."""
    assert stand(owner, _holder()) is standing


def test_a_try_that_a_cluster_runs_again_takes_its_app_over() -> None:
    """Dask and Ray run the task of a lost worker again, which Prefect does not count."""
    lost, again = _holder(call="1000-x"), _holder(call="2000-y")
    assert stand(lost.token, again) is Standing.FREE
    assert stand(again.token, lost) is Standing.OVERTAKEN
    assert stand(_holder(call="2000-z").token, again) is Standing.TAKEN
    assert stand(_holder(call="of-an-older-release").token, again) is Standing.FREE
    assert _holder(("root", 1), task_try=1, is_distributed=True).has_predecessors


def test_a_resumed_flow_run_takes_the_app_of_the_one_that_was_suspended() -> None:
    """Prefect does not count its start, so its run count is the same."""
    suspended, resumed = _holder(("root", 2)), _holder(("root", 2, 1), task_run_id="another")
    assert stand(suspended.token, resumed) is Standing.FREE
    assert stand(resumed.token, suspended) is Standing.OVERTAKEN
    assert _holder(("root", 1, 1), task_try=0).has_predecessors
