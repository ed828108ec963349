from __future__ import annotations

import json

import pytest

from torchx_core import AppDef, AppState, AppStatus, Role
from torchx_core.components.dist import torchrun
from torchx_core.page.document import LineRun, describe_app
from torchx_core.page.fold import LINE_CHARS, MAX_LINES, MAX_POINTS, Fold
from torchx_core.schedulers import (
    AppEvent,
    Link,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
)
from torchx_core.specs import ReplicaStatus, Resource, RoleStatus

HANDLE = "local_cwd://s/app-1"
APP = AppDef(
    "app",
    [
        Role(
            "r",
            image="",
            entrypoint="train",
            args=["--api-key", "sesame-street", "--lr=0.1"],
            env={"HF_TOKEN": "hf_secret", "EPOCHS": "3"},
            num_replicas=2,
            resource=Resource(cpu=2, gpu=0, memMB=64),
        )
    ],
)


def _lines(*lines: str, replica: int = 0, time: float = 1.0) -> LogLines:
    return LogLines("r", replica, 0, "stdout", lines, time)


def _metric(value: float, step: int | None = None, *, name: str = "loss", replica: int = 0) -> Metric:
    return Metric(role="r", replica=replica, attempt=0, name=name, value=value, step=step, time=1.0)


def _replica(state: AppState, time: float, attempt: int = 0, exit_code: int | None = None) -> ReplicaChanged:
    return ReplicaChanged(role="r", replica=0, attempt=attempt, state=state, time=time, exit_code=exit_code)


@pytest.fixture
def fold() -> Fold:
    """Return one that knows nothing."""
    return Fold(APP, HANDLE)


def test_what_was_taken_is_drained_once(fold: Fold) -> None:
    """An increment has what is new, and the next one not again."""
    fold.take(_lines("a"))
    fold.take(_metric(0.5, 1))
    first = fold.drain()
    assert first.get("lines") == [("r/0", 0, 0, "info", 1.0, ["a"])]
    assert [curve["y"] for curve in first.get("curves", [])] == [[0.5]]
    assert fold.drain() == {}


def test_two_folds_say_what_one_says() -> None:
    """Who has the increments of one up to a cursor goes on with those of another."""
    events: list[AppEvent] = [
        _replica(AppState.RUNNING, 1.0),
        _lines("a", "ERROR b"),
        _metric(0.5, 1),
        _replica(AppState.FAILED, 2.0, exit_code=3),
        _replica(AppState.RUNNING, 3.0, attempt=1),
    ]

    def told(*groups: list[AppEvent]) -> object:
        lines: list[LineRun] = []
        attempts: dict[object, dict[str, object]] = {}
        for group in groups:
            fold = Fold(APP, HANDLE)
            for event in group:
                fold.take(event)
            increment = fold.drain()
            lines += increment.get("lines", [])
            for news in increment.get("attempts", []):
                attempts.setdefault(news.get("attempt"), {}).update(news)
        return lines, attempts

    for cut in range(len(events)):
        assert told(events[:cut], events[cut:]) == told(events)


def test_levels_secrets_and_what_is_for_terminals(fold: Fold) -> None:
    """Lines have their level; secrets are hidden, of variables and of words; terminal sequences are gone."""
    fold.take(_lines("ERROR hf_secret", "\x1b[31mred\x1b[0m \x1b]0;title\x07sesame-street", "10%\r20%\r"))
    assert fold.drain().get("lines") == [
        ("r/0", 0, 0, "error", 1.0, ["ERROR ***"]),
        ("r/0", 0, 0, "info", 1.0, ["red ***", "20%"]),
    ]


def test_a_very_long_line_is_cut_after_it_was_masked(fold: Fold) -> None:
    """Half a secret would not be recognised."""
    fold.take(_lines("x" * (LINE_CHARS - 4) + "hf_secret"))
    (run,) = fold.drain().get("lines", [])
    assert "hf_" not in run[-1][0]
    assert run[-1][0].endswith("***")
    fold.take(_lines("y" * 1_000_000))
    (run,) = fold.drain().get("lines", [])
    assert len(run[-1][0]) == LINE_CHARS + len("…")


def test_of_too_many_lines_the_last_are_there(fold: Fold) -> None:
    """And it is said how many are not."""
    for first in range(0, 2 * MAX_LINES, 1000):
        fold.take(_lines(*map(str, range(first, first + 1000))))
    increment = fold.drain()
    runs = increment.get("lines", [])
    assert runs[-1][-1][-1] == str(2 * MAX_LINES - 1)
    assert sum(len(run[-1]) for run in runs) == MAX_LINES == increment.get("left_out")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_what_no_axis_shows_is_a_gap(fold: Fold, value: float) -> None:
    """JSON has no such numbers, and a curve with one of them has no scale."""
    fold.take(_metric(value, 10**400))
    (curve,) = fold.drain().get("curves", [])
    assert curve["y"] == [None]
    json.dumps(curve, allow_nan=False)


def test_a_long_curve_is_thinned_out(fold: Fold) -> None:
    """The page says how many points there were."""
    for step in range(100_000):
        fold.take(_metric(step % 7, step))
    (curve,) = fold.drain().get("curves", [])
    assert len(curve["x"]) < 2 * MAX_POINTS
    assert curve["x"][-1] == 99_999
    assert curve["count"] == 100_000


def test_progress_result_and_lost_output(fold: Fold) -> None:
    """A fraction is one, whatever a program says."""
    common = {"role": "r", "replica": 1, "attempt": 0, "time": 1.0}
    fold.take(Progress(fraction=7.0, message="hf_secret", **common))  # type: ignore[arg-type]  # fields by name
    fold.take(Result(value={"token": "hf_secret"}, **common))  # type: ignore[arg-type]  # likewise
    fold.take(LogsLost(size_bytes=5, reason="disk full", **common))  # type: ignore[arg-type]  # likewise
    increment = fold.drain()
    assert increment.get("progress") == [("r/1", 0, 1.0, "***", 1.0)]
    assert increment.get("result") == '{\n  "token": "***"\n}'
    assert increment.get("notices") == [("r/1", "5 bytes of output lost: disk full", 1.0)]


def test_a_failure_leads_with_the_replica_that_failed_first(fold: Fold) -> None:
    """How, its own error, its last lines and those of others, and what to do."""
    fold.take(_lines("all well", replica=0))
    fold.take(_lines("no such file", replica=1))
    replicas = [
        ReplicaStatus(0, AppState.CANCELLED, "r", "h", signal="SIGTERM", ended_at=3.0),
        ReplicaStatus(
            1,
            AppState.FAILED,
            "r",
            "h",
            structured_error_msg='{"message": "boom"}',
            exit_code=3,
            ended_at=2.0,
        ),
    ]
    status = AppStatus(AppState.FAILED, msg="r/1 failed", roles=[RoleStatus("r", replicas)])
    fold.take(StateChanged(state=AppState.FAILED, time=4.0, status=status))
    increment = fold.drain()
    failure = increment.get("failure")
    assert failure is not None
    assert failure["headline"] == "Replica r/1 failed with exit code 3"
    assert failure["error"] == "boom"
    assert failure["last"] == [("r/1", ["no such file"]), ("r/0", ["all well"])]
    assert any("torchx-core log" in advice for advice in failure["advice"])
    assert increment.get("over") is True
    assert {news.get("exit") for news in increment.get("attempts", [])} == {"SIGTERM", "3"}


def test_links_are_the_latest_of_each_name(fold: Fold) -> None:
    """Of each replica, without secrets; a page is given no more than a hundred of them."""
    links = [("mlflow", "http://old"), ("mlflow", "http://new?token=hf_secret"), ("disk", "/runs/1")]
    for name, target in [*links, *((f"more {i}", "x") for i in range(200))]:
        fold.take(Link(role="r", replica=0, attempt=0, name=name, target=target, time=1.0))
    told = fold.drain().get("links", [])
    assert told[:2] == [("r/0", "mlflow", "http://new?token=***"), ("r/0", "disk", "/runs/1")]
    assert len(told) == 100


def test_what_was_run_without_its_secrets() -> None:
    """Command, resources and variables; and how to cancel it."""
    described = describe_app(APP, HANDLE)
    (role,) = described["roles"]
    assert role["command"] == "train --api-key '***' --lr=0.1"
    assert dict(role["facts"]) == {"Replicas": "2", "CPU cores": "2", "Memory": "64 MB"}
    assert dict(role["env"]) == {"HF_TOKEN": "***", "EPOCHS": "3"}
    assert ("Cancel it", f"torchx-core cancel {HANDLE}") in described["commands"]
    assert "sesame" not in json.dumps(described)


def test_a_program_among_the_words_is_shown_by_its_first_line() -> None:
    """What a component passes along hides no word of the user's; what is copied is whole."""
    (role,) = describe_app(torchrun("--lr", "0.1", script="train.py", j="1x2"), HANDLE)["roles"]
    assert len(role["command_shown"]) < 500
    assert role["command_shown"].startswith("sh -c 'export TORCHX_RANK_PROGRAM=")
    assert role["command_shown"].endswith("-- train.py --lr 0.1")
    assert "exec torchrun" in role["command"]
    assert "exec torchrun" not in role["command_shown"]
