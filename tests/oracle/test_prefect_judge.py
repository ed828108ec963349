"""The judge of Prefect's log tells every kind of breach by its name, and has nothing to say of a good log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from judge import Promises
from prefect_judge import AppSeen, CallSeen, HostSeen, judge_call, judge_hosts
from truth import Copy, Said
from witness import line

KINDS = (("stdout", "plain"), ("stderr", "wide"), ("stdout", "bar"))
LINES = [
    line("r0/0/0", stream, n, kind, 12).decode(errors="replace") for n, (stream, kind) in enumerate(KINDS)
]
SHOWN = [LINES[0], LINES[1], "2%"]


def _record(text: str, *, at: int, source: str = "r0.0") -> dict[str, Any]:
    name = f"{source or 'torchx'}@local_cwd/app-1"
    time = f"2026-01-01T00:00:{at:02}.000000Z"
    return {"name": name, "message": text, "timestamp": time, "created": time}


def _log(*lines: str) -> list[dict[str, Any]]:
    texts = ["is RUNNING", *lines, "is SUCCEEDED"]
    records = [_record(f"[r0/0] {text}", at=at) for at, text in enumerate(texts)]
    return [*records, _record("app is SUCCEEDED", at=len(records), source="")]


def _call(records: list[dict[str, Any]]) -> CallSeen:
    said = [Said(text.split()[1], n, text, eol=True, sure=True, whole=True) for n, text in enumerate(LINES)]
    copy = Copy("r0", 0, 0, 0, pid=1, started=1.0, last=2.0, said=said, exit_code=0)
    app = AppSeen(app_id="a", copies=[copy], status=None, alive=[], submitted_at=0.0)
    return CallSeen(number=0, apps=[app], records=records, outcomes=[])


def _names(records: list[dict[str, Any]], *, has_rest: bool = True) -> set[str]:
    promises = Promises(exact=True, reports=False)
    found = judge_call(_call(records), promises, starts=1, has_rest=has_rest)
    return {violation.name for violation in found}


def test_a_good_log_breaks_nothing() -> None:
    """Each line once, a bar by its last state, the replica's changes and the app's end."""
    assert _names(_log(*SHOWN)) == set()


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (SHOWN[:2], "lost-line"),
        ([SHOWN[0], *SHOWN], "repeated-line"),
        (["something else", *SHOWN], "strange-line"),
        ([SHOWN[0][:20], SHOWN[0][20:], *SHOWN[1:]], "lost-line"),
        ([SHOWN[1], SHOWN[0], SHOWN[2]], "streams-disordered"),
        (["is RUNNING", *SHOWN], "changes"),
    ],
)
def test_a_breach_is_told_by_its_name(lines: list[str], name: str) -> None:
    """A lost, repeated, strange or cut line, wrong order, a change that is told twice."""
    assert name in _names(_log(*lines))


def test_a_long_line_is_put_together_from_its_pieces() -> None:
    """Prefect's log shows it cut, each piece but the first with an ellipsis."""
    pieces = _log(SHOWN[0][:20], f"…{SHOWN[0][20:]}", *SHOWN[1:])
    assert _names(pieces) == set()
    result = _record("[r0/0] result 5", at=1, source="r0.0.results")
    assert _names([*pieces[:2], result, *pieces[2:]]) == set()


def test_bars_of_two_streams_are_told_apart() -> None:
    """What is left of a bar does not say which stream it was written to; its place among the others does."""
    said = [
        Said(stream, n, text, eol=True, sure=True, whole=False)
        for stream, n, text in [
            ("stderr", 0, "0%"),
            ("stderr", 1, LINES[1]),
            ("stdout", 0, "0%"),
        ]
    ]
    call = _call(_log("0%", LINES[1], "0%"))
    call.apps[0].copies[0].said[:] = said
    assert judge_call(call, Promises(exact=True, reports=False), starts=1, has_rest=True) == []


def test_an_outcome_is_judged_by_the_app_that_it_is_of() -> None:
    """A flow run that is cancelled after a retry has no outcome; what is there is of the app before."""
    call = _call(_log(*SHOWN))
    failed = replace(call.apps[0].copies[0], exit_code=3)
    replica = {"role": "r0", "id": 0, "attempt": 0, "state": "FAILED"}
    status = {"state": "FAILED", "msg": "", "roles": [{"role": "r0", "replicas": [replica]}]}
    first = replace(call.apps[0], copies=[failed], status=status)
    second = replace(first, copies=[replace(failed, exit_code=4)], submitted_at=20.0)
    outcome = {"error": "AppStatusError", "text": "replica r0/0 failed with exit code 3"}
    for time, names in ((10.0, set()), (30.0, {"wrong-cause"})):
        seen = replace(call, apps=[first, second], outcomes=[{**outcome, "time": time}])
        found = judge_call(seen, Promises(exact=True, reports=False), starts=2, has_rest=False)
        assert {violation.name for violation in found} & {"wrong-cause"} == names


def test_the_end_of_the_log_may_be_missing_where_nobody_follows() -> None:
    """What is there must be right all the same."""
    assert _names(_log()[:1], has_rest=False) == set()
    assert "repeated-line" in _names(_log(SHOWN[0], SHOWN[0])[:3], has_rest=False)


def test_a_second_app_needs_a_failure_and_a_second_start() -> None:
    """One app per call: another one only after the first has failed, and when the flow began again."""
    call = _call(_log(*SHOWN))
    other = AppSeen(app_id="b", copies=[], status=None, alive=[], submitted_at=1e12)
    call.apps.append(other)
    found = judge_call(call, Promises(), starts=1, has_rest=True)
    assert [v.name for v in found].count("app-twice") == 2


HOST = HostSeen(handle="local_cwd://torchx/a", state="SUCCEEDED", message="", is_over=True)
BEGAN = {"app": HOST.handle, "overlap": False}
CANCELLED = replace(HOST, state="CANCELLED", message="cancelled because somebody wished it")


def _host_names(hosts: list[HostSeen], starts: list[dict[str, Any]], **excused: tuple[str, ...]) -> set[str]:
    return {found.name for found in judge_hosts(hosts, starts, dispatches=1, may_end=excused)}


def test_a_flow_run_that_a_worker_ran_once_breaks_nothing() -> None:
    """One app for its one dispatch, in which the flow began once, or not at all."""
    assert _host_names([HOST], [BEGAN]) == set()
    assert _host_names([HOST], []) == set()


@pytest.mark.parametrize(
    ("hosts", "starts", "name"),
    [
        ([HOST, replace(HOST, handle="local_cwd://torchx/b")], [BEGAN], "app-twice"),
        ([HOST], [BEGAN, BEGAN], "ran-twice"),
        ([HOST], [{**BEGAN, "overlap": True}], "two-at-once"),
        ([HOST], [{**BEGAN, "app": None}], "strange-app"),
        ([replace(HOST, state="RUNNING", is_over=False)], [BEGAN], "left-running"),
        ([CANCELLED], [BEGAN], "wrong-state"),
    ],
)
def test_a_workers_breach_is_told_by_its_name(
    hosts: list[HostSeen], starts: list[dict[str, Any]], name: str
) -> None:
    """Two apps of one dispatch, two starts in one app, two at once, an app that runs on or ends otherwise."""
    assert _host_names(hosts, starts) == {name}


def test_a_workers_app_may_end_as_the_fault_excuses_and_for_no_other_reason() -> None:
    """Its message holds one of the words that go with the state."""
    assert _host_names([CANCELLED], [BEGAN], CANCELLED=("somebody wished",)) == set()
    assert _host_names([CANCELLED], [BEGAN], CANCELLED=("lease",)) == {"wrong-state"}
    assert _host_names([CANCELLED], [BEGAN], FAILED=("",)) == {"wrong-state"}
