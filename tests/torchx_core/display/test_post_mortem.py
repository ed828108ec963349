from __future__ import annotations

import json
from typing import Any

import pytest

from torchx_core.display.post_mortem import LAST_LINES, PEER_LINES, PEERS, post_mortem
from torchx_core.display.tails import Tails
from torchx_core.schedulers import LogLines
from torchx_core.specs import AppState, AppStatus, ReplicaStatus, RoleStatus

HANDLE = "local_cwd://torchx/a-1"


def _status(state: AppState, *replicas: ReplicaStatus, **what: Any) -> AppStatus:
    return AppStatus(state=state, roles=[RoleStatus("r", list(replicas))], **what)


def _failed(number: int, **what: Any) -> ReplicaStatus:
    return ReplicaStatus(id=number, state=AppState.FAILED, role="r", hostname="", **what)


def _report(status: AppStatus, **lines: list[str]) -> str:
    tails = Tails()
    for name, texts in lines.items():
        tails.remember(LogLines("r", int(name[1:]), 0, "stdout", tuple(texts), 1.0))
    return post_mortem(status, HANDLE, tails)


def test_it_leads_with_who_failed_first() -> None:
    """Not with those that were stopped for its sake, though they come first in the status."""
    status = _status(
        AppState.FAILED,
        _failed(0, signal="SIGTERM", ended_at=2.0),
        _failed(1, exit_code=3, ended_at=1.0, attempt=2, log_dir="/logs/1", msg="said so"),
        num_restarts=2,
    )
    report = _report(status, r0=["peer"], r1=["last word"])
    assert report.startswith("# Replica r/1 failed with exit code 3\n")
    assert "| Attempts | 3 of this replica; the app started again 2 times |" in report
    assert "| Failed later | r/0 (was killed by SIGTERM) |" in report
    assert "| Log files | `/logs/1` |" in report
    assert report.index("last word") < report.index("peer")


def test_last_lines_are_few_and_of_few() -> None:
    """The failed replica's most of all; a report is read by a person."""
    many = {f"r{number}": [f"{number}-{line}" for line in range(200)] for number in range(20)}
    report = _report(_status(AppState.FAILED, _failed(0, exit_code=1)), **many)
    assert sum(line.startswith("0-") for line in report.splitlines()) <= LAST_LINES
    assert sum("Last lines of" in line for line in report.splitlines()) == 1 + PEERS
    assert sum(line.startswith("1-") for line in report.splitlines()) == PEER_LINES


def test_no_line_of_the_app_ends_its_block() -> None:
    """Whatever it prints is text, not Markdown."""
    report = _report(_status(AppState.FAILED, _failed(0)), r0=["```", "# not a title"])
    assert "````text\n```\n# not a title\n````" in report


def test_a_table_holds_any_message() -> None:
    """Of several lines, with bars."""
    report = _report(_status(AppState.FAILED, _failed(0), msg="a|b\nc"))
    assert "| Message | a\\|b c |" in report


def test_an_error_of_the_program_is_shown_also_when_it_belongs_to_no_replica() -> None:
    """In full, as far as anybody reads."""
    report = _report(_status(AppState.FAILED, structured_error_msg='{"message": "no quorum"}'))
    assert report.startswith("# The app is FAILED")
    assert "## Its error\n\n```text\nno quorum\n```" in report


@pytest.mark.parametrize(
    ("how", "advice"),
    [
        ({"signal": "SIGKILL"}, "out of memory"),
        ({"signal": "SIGSEGV"}, "native code"),
        ({"exit_code": 127}, "no such program"),
    ],
)
def test_it_says_what_to_do(how: dict[str, Any], advice: str) -> None:
    """Where the kind of end tells; and always where to read on."""
    report = _report(_status(AppState.FAILED, _failed(0, **how)))
    assert advice in report
    assert f"torchx-core log {HANDLE}" in report


def test_a_cancelled_app_is_no_riddle() -> None:
    """Its message says by whom."""
    report = _report(_status(AppState.CANCELLED, msg="cancelled by a user"))
    assert "asked for its end" in report
    assert "| Message | cancelled by a user |" in report


def test_what_a_program_says_is_never_a_link_a_picture_or_html() -> None:
    """The message of a failed program stays plain text on Prefect's page."""
    hostile = "<img src=x onerror=alert(1)> ![p](http://tracker/p) [log in](javascript:x) `code`"
    report = _report(_status(AppState.FAILED, _failed(0, msg=hostile), msg=hostile))
    for row in report.splitlines():
        if row.startswith(("| Message", "| Said")):
            assert "<" not in row
            assert r"\!\[p\](" in row
            assert r"\[log in\](" in row


def test_a_rank_and_its_exception_lead() -> None:
    """As in every message of the failure; where it was raised stands with its traceback."""
    trace = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nKeyError: 1'
    extra = {"py_callstack": trace, "time": 1.0, "rank": "3"}
    told = json.dumps({"message": {"message": "KeyError: 1", "errorCode": 1, "extraInfo": extra}})
    report = _report(_status(AppState.FAILED, _failed(0, exit_code=1, structured_error_msg=told)))
    assert report.startswith("# Rank 3 of replica r/0 failed with exit code 1: KeyError: 1\n")
    assert f"## Its error\n\nAt `a.py:3, in f`.\n\n```text\n{trace}\n```" in report
