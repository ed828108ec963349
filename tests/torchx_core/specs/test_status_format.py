from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import yaml

from torchx_core.specs import NONE, AppState, AppStatus, ReplicaStatus, RoleStatus, Usage

ERROR = json.dumps(
    {"message": {"message": "OOM\nat line 3", "errorCode": 9, "extraInfo": {"timestamp": "0"}}}
)


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set this host's clock to UTC."""
    with monkeypatch.context() as change:
        change.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def replica(number: int = 0, state: AppState = AppState.FAILED, **facts: Any) -> ReplicaStatus:
    """A replica of the role ``trainer`` on host ``h1``."""
    return ReplicaStatus(number, state, "trainer", "h1", **facts)


def app(*replicas: ReplicaStatus, **facts: Any) -> AppStatus:
    """A failed app with these replicas."""
    return AppStatus(AppState.FAILED, roles=[RoleStatus("trainer", list(replicas))], **facts)


def test_summary_tells_everything_in_order() -> None:
    """Replica, cause, error, messages, logs, then the others that failed."""
    first = replica(
        3, exit_code=1, attempt=2, ended_at=5.0, structured_error_msg=ERROR, msg="gave up", log_dir="/l"
    )
    status = app(
        replica(0, AppState.CANCELLED), replica(4, signal="SIGSEGV", ended_at=6.0), first, msg="gang stopped"
    )
    assert status.failure_summary() == (
        "replica trainer/3 failed with exit code 1"
        " (attempt 3, on h1, at 1970-01-01T00:00:00Z); app is FAILED\n"
        "  error: OOM\n"
        "         at line 3\n"
        "  message: gave up\n"
        "  message: gang stopped\n"
        "  logs: /l\n"
        "  also failed: trainer/4 (SIGSEGV)"
    )


@pytest.mark.parametrize(
    ("facts", "headline"),
    [
        ({"exit_code": 7}, "replica trainer/0 failed with exit code 7 (on h1); app is FAILED"),
        ({"exit_code": 0}, "replica trainer/0 failed with exit code 0 (on h1); app is FAILED"),
        (
            {"signal": "SIGKILL", "exit_code": 137},
            "replica trainer/0 was killed by SIGKILL (on h1); app is FAILED",
        ),
        ({}, "replica trainer/0 failed (on h1); app is FAILED"),
        (
            {"structured_error_msg": '{"message": "x", "errorCode": 9}'},
            "replica trainer/0 failed with exit code 9",
        ),
        (
            {"structured_error_msg": "torn {"},
            "replica trainer/0 failed (on h1); app is FAILED\n  error: torn {",
        ),
    ],
)
def test_summary_leads_with_the_cause(facts: dict[str, Any], headline: str) -> None:
    """A signal beats an exit code, and the observed exit code beats the reported one."""
    assert app(replica(**facts)).failure_summary().startswith(headline)


def test_first_failure_is_the_one_that_ended_first() -> None:
    """Replicas without an end time come last, in their order."""
    status = app(replica(0), replica(1, ended_at=9.0), replica(2, ended_at=3.0, exit_code=4))
    summary = status.failure_summary()
    assert summary.startswith("replica trainer/2")
    assert summary.endswith("also failed: trainer/1 (exit code unknown), trainer/0 (exit code unknown)")


def test_many_failures_are_counted() -> None:
    """A thousand failed replicas do not make a message of a thousand entries."""
    summary = app(*(replica(i, exit_code=1, ended_at=float(i)) for i in range(1000))).failure_summary()
    assert summary.endswith("trainer/10 (exit code 1) and 989 more")


def test_summary_without_a_failed_replica() -> None:
    """The app's own error and message are all there is."""
    status = AppStatus(AppState.FAILED, msg="image not found", structured_error_msg=ERROR)
    assert status.failure_summary() == (
        "job did not succeed: app is FAILED (at 1970-01-01T00:00:00Z)\n"
        "  error: OOM\n"
        "         at line 3\n"
        "  message: image not found"
    )


def test_error_of_the_app_explains_a_silent_replica() -> None:
    """A replica without an error file borrows the app's error."""
    assert "  error: OOM" in app(replica(exit_code=1), structured_error_msg=ERROR).failure_summary()


def test_same_message_is_told_once() -> None:
    """Replica and app often say the same."""
    assert app(replica(msg="oom"), msg="oom").failure_summary().count("message: oom") == 1


def test_running_app_is_no_success() -> None:
    """The summary of an app that is not over says so."""
    assert AppStatus(AppState.RUNNING).failure_summary() == "job did not succeed: app is RUNNING"


def test_host_is_left_out_when_unknown() -> None:
    """No empty parentheses."""
    status = app(replace(replica(exit_code=1), hostname=""))
    assert status.failure_summary() == "replica trainer/0 failed with exit code 1; app is FAILED"


@pytest.mark.usefixtures("utc")
def test_format() -> None:
    """One line per replica in order, details below, the app's facts around."""
    status = AppStatus(
        AppState.FAILED,
        num_restarts=1,
        msg="two\nlines",
        ui_url="http://ui",
        roles=[
            RoleStatus(
                "trainer",
                [
                    replica(2, AppState.RUNNING, msg="soon done"),
                    replica(1, signal="SIGKILL"),
                    replica(0, structured_error_msg=ERROR),
                ],
            ),
            RoleStatus("ps", [ReplicaStatus(0, AppState.FAILED, "ps", "h2", "torn", exit_code=3)]),
        ],
    )
    assert status.format() == (
        "AppStatus:\n"
        "    State: FAILED\n"
        "    Num Restarts: 1\n"
        "    Roles:\n"
        " *trainer[0]:FAILED (exitcode: 9)\n"
        "        timestamp: 1970-01-01 00:00:00\n"
        "        hostname: h1\n"
        "        error_msg: OOM\n"
        "                   at line 3\n"
        "  trainer[1]:FAILED (signal: SIGKILL)\n"
        "  trainer[2]:RUNNING\n"
        "        msg: soon done\n"
        " *ps[0]:FAILED (exitcode: 3)\n"
        "        timestamp: <N/A>\n"
        "        hostname: h2\n"
        "        error_msg: torn\n"
        "    Msg: two\n"
        "         lines\n"
        "    Structured Error Msg: <NONE>\n"
        "    UI URL: http://ui\n"
    )


def test_format_of_some_roles() -> None:
    """A filter leaves out the other roles; an empty one leaves out none."""
    status = AppStatus(
        AppState.RUNNING, roles=[RoleStatus(r, [ReplicaStatus(0, AppState.RUNNING, r, "h")]) for r in "ab"]
    )
    assert "a[0]" not in status.format(filter_roles=["b"])
    assert "b[0]" in status.format(filter_roles=["b"])
    assert "a[0]" in status.format(filter_roles=[])


def test_repr_is_yaml() -> None:
    """A status in a log shows everything that is set, nested; the app's error as what it is."""
    status = app(
        replica(0), replica(1, msg="zwölf\nlines", exit_code=3), structured_error_msg=ERROR, result=[0.5]
    )
    told = yaml.safe_load(repr(status))["AppStatus"]
    assert (told["state"], told["result"], told["structured_error_msg"]) == (
        "FAILED (5)",
        [0.5],
        json.loads(ERROR),
    )
    first, second = told["roles"][0]["replicas"]
    assert "exit_code" not in first
    assert (second["msg"], second["exit_code"], second["state"]) == ("zwölf\nlines", 3, "FAILED (5)")


def test_repr_of_anything() -> None:
    """A result that is no JSON value, or text no terminal can show, does not break a log statement."""
    assert "\x1b" not in repr(app(msg="ä\x1b\ud800", result=object()))
    assert "\n  msg: ä\n" in repr(app(msg="ä"))
    used = ReplicaStatus(0, AppState.SUCCEEDED, "r", "h", usage=Usage(cpu_s=1.5, processes=2))
    assert "\n      usage:\n        cpu_s: 1.5\n        processes: 2\n" in repr(app(used))
    assert "structured_error_msg: '{torn'" in repr(app(structured_error_msg="{torn"))


@pytest.mark.parametrize(
    "error", [NONE, ERROR, '{"message": "flat", "errorCode": 3, "timestamp": 1000000000}']
)
def test_the_text_is_that_of_torchx(error: str) -> None:
    """The same status has the same text there, but for white space at the ends of lines."""
    texts: list[list[str]] = []
    for specs in (import_module("torchx.specs"), import_module("torchx_core.specs")):
        states = specs.AppState
        replicas = [
            specs.ReplicaStatus(1, states.RUNNING, "a", "h"),
            specs.ReplicaStatus(0, states.FAILED, "a", "h", error.replace("\\nat line 3", "")),
            specs.ReplicaStatus(2, states.CANCELLED, "a", "h"),
        ]
        status = specs.AppStatus(
            states.FAILED, 2, "why", error, "http://ui", [specs.RoleStatus("a", replicas)]
        )
        texts.append([line.rstrip() for line in status.format().splitlines() if line.strip()])
    assert texts[0] == texts[1]


def test_the_repr_is_that_of_torchx() -> None:
    """Where TorchX's is plain YAML: it writes states of replicas as Python objects."""
    theirs, ours = (
        repr(specs.AppStatus(specs.AppState.FAILED, 2, "why: # it's", error, "http://ui"))
        for specs in (import_module("torchx.specs"), import_module("torchx_core.specs"))
        for error in (ERROR,)
    )
    assert theirs == ours
