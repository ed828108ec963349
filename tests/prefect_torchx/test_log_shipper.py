from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from log_api import LogApi, serving
from prefect.client.schemas.actions import ArtifactUpdate

from prefect_torchx.api import Api, Refused
from prefect_torchx.log_shipper import FULL_BYTES, REQUEST_RECORDS, LogShipper
from torchx_core.testing import FakeClock, wait_until

FLOW_RUN = str(uuid4())
RECORDS = "POST /api/logs/"
WAIT_S = 240.0


@pytest.fixture
def api() -> Iterator[LogApi]:
    """Return an API that this process's settings name."""
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED, temporary_settings

    with (
        serving() as api,
        temporary_settings({PREFECT_API_URL: api.url, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}),
    ):
        yield api


class Run:
    """Sends, and remembers what it is told."""

    def __init__(self, log_shipper: LogShipper) -> None:
        self.log_shipper = log_shipper
        self.accepted_tokens: list[object] = []
        self.refusals: list[str] = []
        self.due_at = float("inf")
        self.drawn = 0
        self.draws = 1
        """How often it is due until it is done."""
        self.is_taken = True
        self.closing = self.unsaved = self.in_haste = False
        self.saved = 0
        log_shipper.join(self)

    def send(self, *numbers: int) -> None:
        """Send numbered records, and their last number as a token after them."""
        for number in numbers:
            self.log_shipper.send(self, _payload(number), 100)
        self.log_shipper.send(self, None, 0, numbers[-1])

    def accepted(self, token: object) -> None:
        self.accepted_tokens.append(token)

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)

    def due(self) -> float:
        return self.due_at

    def draw(self, api: Api) -> bool:
        api.missing([_payload(0) | {"flow_run_id": str(uuid4())}])  # a request that brings no record
        self.drawn += 1
        if self.drawn == self.draws:
            self.due_at = float("inf")
        return self.is_taken

    def save(self) -> bool:
        self.saved += 1
        self.unsaved = self.in_haste = False
        return True


def _payload(number: int) -> dict[str, Any]:
    return {
        "name": "prefect.flow_runs.torchx",
        "level": 20,
        "message": f"number {number}",
        "timestamp": f"2026-11-21T10:00:00.{number:06}+00:00",
        "flow_run_id": FLOW_RUN,
        "task_run_id": None,
    }


def _messages(count: int) -> list[str]:
    return [f"number {number}" for number in range(count)]


@pytest.fixture
def run(api: LogApi) -> Iterator[Run]:
    """Return a run that sends to the API."""
    del api
    run = Run(LogShipper(Api))
    yield run
    run.log_shipper.leave(run)


def test_records_arrive_in_order_many_in_a_request(api: LogApi, run: Run) -> None:
    """The run is told how far they have got."""
    api.stuck.set()  # or a busy host would send the first before there are many
    run.send(*range(10 * REQUEST_RECORDS))
    api.stuck.clear()
    wait_until(lambda: run.accepted_tokens == [10 * REQUEST_RECORDS - 1], WAIT_S)
    assert api.messages == _messages(10 * REQUEST_RECORDS)
    assert len(api.requests) < 20


def test_an_error_of_ours_loses_nothing(api: LogApi, caplog: pytest.LogCaptureFixture) -> None:
    """The log shipper's thread goes on after what nobody has foreseen, and says so."""
    failing = iter([KeyError("A_VARIABLE"), KeyError("ANOTHER"), None])

    def make_api() -> Api:
        if error := next(failing):
            raise error
        return Api()

    run = Run(LogShipper(make_api))
    run.send(0, 1, 2)
    wait_until(lambda: run.accepted_tokens == [2], WAIT_S)
    assert api.messages == _messages(3)
    run.log_shipper.leave(run)
    assert "KeyError: 'A_VARIABLE'" in caplog.text


def test_an_outage_loses_nothing_and_repeats_nothing(api: LogApi, run: Run) -> None:
    """Records wait for the API, however often requests break off; then they arrive in order."""
    run.send(0)
    wait_until(lambda: run.accepted_tokens == [0], WAIT_S)
    api.away.set()
    run.send(*range(1, 500))
    wait_until(lambda: len(api.requests) > 3, WAIT_S)
    assert run.accepted_tokens == [0]
    api.away.clear()
    wait_until(lambda: run.accepted_tokens == [0, 499], WAIT_S)
    assert api.messages == _messages(500)


def test_a_request_that_broke_off_after_it_was_served_is_not_repeated(api: LogApi, run: Run) -> None:
    """The server is asked what it has, for every request that was in doubt."""
    api.cuts = 3
    run.send(*range(1000))
    wait_until(lambda: run.accepted_tokens == [999], WAIT_S)
    assert api.cuts == 0
    assert api.messages == _messages(1000)


def test_doubt_outlasts_a_refusal(api: LogApi, run: Run) -> None:
    """What a cut-off request has delivered is not repeated when the next one has to be sent in halves."""
    api.stuck.set()
    run.send(0)
    wait_until(lambda: api.requests, WAIT_S)
    run.send(*range(1, 151))
    api.cuts, api.cut_from = 1, 150
    api.stuck.clear()
    wait_until(lambda: not api.cuts, WAIT_S)
    api.away.set()
    api.refuses = lambda record: record["message"] == "number 180"
    run.send(*range(151, 190))
    api.away.clear()
    wait_until(lambda: run.accepted_tokens[-1:] == [189], WAIT_S)
    assert api.messages == [message for message in _messages(190) if message != "number 180"]


def test_one_record_that_the_server_refuses_costs_no_other(api: LogApi, run: Run) -> None:
    """It is found among those that went with it, and its run is told."""
    api.refuses = lambda record: record["message"] == "number 77"
    run.send(*range(300))
    wait_until(lambda: run.accepted_tokens == [299], WAIT_S)
    assert api.messages == [message for message in _messages(300) if message != "number 77"]
    assert ["422" in reason for reason in run.refusals] == [True]


def test_runs_share_a_thread_and_learn_of_their_own_records_only(run: Run) -> None:
    """A hundred mapped tasks are one thread and one connection."""
    other = Run(run.log_shipper)
    run.send(0, 1)
    other.send(2)
    wait_until(lambda: run.accepted_tokens == [1] and other.accepted_tokens == [2], WAIT_S)
    assert sum(thread.name == "torchx-log-shipper" for thread in threading.enumerate()) == 1
    other.log_shipper.leave(other)


def test_what_a_run_leaves_behind_is_told(api: LogApi, run: Run) -> None:
    """What is told so holds nobody up afterwards."""
    other = Run(run.log_shipper)
    api.away.set()
    other.send(0, 1, 2)
    run.send(3)
    assert other.log_shipper.leave(other) == 3
    api.away.clear()
    wait_until(lambda: run.accepted_tokens == [3], WAIT_S)
    assert api.messages == ["number 3"]
    assert other.accepted_tokens == []


def test_a_server_that_is_stuck_blocks_nobody(api: LogApi, run: Run) -> None:
    """Sending takes no longer; when much waits the log shipper is full, until it arrives."""
    api.stuck.set()
    run.log_shipper.send(run, _payload(0), FULL_BYTES + 1)
    wait_until(lambda: api.requests, WAIT_S)
    run.send(1)
    assert run.log_shipper.full
    api.stuck.clear()
    wait_until(lambda: run.accepted_tokens == [1], WAIT_S)
    assert not run.log_shipper.full


def test_what_is_due_is_done_also_while_there_is_nothing_to_send(run: Run) -> None:
    """Pictures have a time of their own."""
    run.due_at = 0.0
    run.log_shipper.wake()
    wait_until(lambda: run.drawn == 1, WAIT_S)


def _others_before_the_last_record(api: LogApi) -> int:
    """Return how many requests that bring no records came before the last one that does."""
    last = max(number for number, request in enumerate(api.requests) if request == RECORDS)
    return sum(request != RECORDS for request in api.requests[:last])


def _crowd(api: LogApi, run: Run, *, closing: bool) -> list[Run]:
    """Have forty runs send at once whose pictures are all due, and wait until all has arrived."""
    runs = [run, *(Run(run.log_shipper) for _ in range(39))]
    api.stuck.set()
    run.send(0)
    wait_until(lambda: api.requests, WAIT_S)
    for number, each in enumerate(runs):
        each.drawn, each.draws, each.due_at = 0, 2, 0.0
        each.closing = closing
        each.send(*range(1 + 100 * number, 101 + 100 * number))
    api.stuck.clear()
    wait_until(
        lambda: all(each.accepted_tokens[-1:] == [100 + 100 * n] for n, each in enumerate(runs)), WAIT_S
    )
    return runs


@pytest.mark.parametrize("closing", [False, True])
def test_pictures_do_not_starve_the_log(api: LogApi, run: Run, *, closing: bool) -> None:
    """After a request with records one at most is drawn; none while somebody waits for the end of a log."""
    runs = _crowd(api, run, closing=closing)
    assert _others_before_the_last_record(api) <= (0 if closing else api.requests.count(RECORDS))
    assert sorted(api.messages) == sorted(_messages(4001))
    wait_until(lambda: [each.drawn for each in runs] == [2] * 40, WAIT_S)
    for other in runs[1:]:
        other.log_shipper.leave(other)


@pytest.mark.parametrize("is_taken", [False, True])
@pytest.mark.usefixtures("api")
def test_a_picture_that_is_not_taken_holds_nobody_up(*, is_taken: bool) -> None:
    """Who waits for the end of a log waits as long as Prefect's API takes something, and then a minute."""
    clock = FakeClock(100.0)
    run = Run(log_shipper := LogShipper(Api, clock))
    run.is_taken, run.draws = is_taken, 1
    clock.advance(1.0)
    run.due_at = 0.0
    log_shipper.wake()
    wait_until(lambda: run.due_at > 0.0, WAIT_S)
    log_shipper.leave(run)
    wait_until(lambda: log_shipper.accepted_at == (101.0 if is_taken else 100.0), WAIT_S)


@pytest.mark.usefixtures("api")
def test_an_artifact_that_somebody_has_deleted_is_refused() -> None:
    """It was not wanted; to try again and again would keep the run waiting at its end."""
    with Api() as there, pytest.raises(Refused, match="404"):
        there.update_artifact(uuid4(), ArtifactUpdate(data="[1]"))


@pytest.mark.usefixtures("api")
def test_all_runs_save_at_the_same_time() -> None:
    """Once a second, so that one request does it; at once when somebody waits for it and no log does."""
    clock = FakeClock(100.0)
    runs = [Run(log_shipper := LogShipper(Api, clock)), *(Run(log_shipper) for _ in range(9))]

    def save_all() -> None:
        for run in runs:
            run.unsaved = True
        log_shipper.wake()

    save_all()
    wait_until(lambda: all(run.saved == 1 for run in runs), WAIT_S)
    save_all()
    runs[0].send(1)
    wait_until(lambda: runs[0].accepted_tokens, WAIT_S)
    assert [run.saved for run in runs] == [1] * 10
    runs[0].in_haste = True
    log_shipper.wake()
    wait_until(lambda: all(run.saved == 2 for run in runs), WAIT_S)
    for run in runs:
        log_shipper.leave(run)


@pytest.mark.usefixtures("api")
def test_the_thread_ends_with_the_last_run_and_starts_with_the_next() -> None:
    """A process that shows no app has no thread of ours."""
    run = Run(LogShipper(Api))
    log_shipper = run.log_shipper
    log_shipper.leave(run)
    wait_until(
        lambda: not any(thread.name == "torchx-log-shipper" for thread in threading.enumerate()), WAIT_S
    )
    again = Run(log_shipper)
    again.send(0)
    wait_until(lambda: again.accepted_tokens == [0], WAIT_S)
    log_shipper.leave(again)
