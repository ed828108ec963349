from __future__ import annotations

import json

import pytest

from prefect_torchx.position import RESULT_BYTES, End, Position, record_name, source_in
from torchx_core.specs import AppState, AppStatus


def test_a_position_survives_json() -> None:
    """It is saved by one process and read by another."""
    end = End.of(AppStatus(state=AppState.SUCCEEDED, result={"loss": float("nan"), "text": "\0\ud800"}))
    for each in (None, end, End(AppState.FAILED, None)):
        position = Position(cursor='{"v": 1}', shown_bytes=7, times={"r.0": 5.5}, end=each)
        saved = json.dumps(position.to_json(), allow_nan=False, ensure_ascii=False).encode()
        assert Position.from_json(json.loads(saved)) == position


@pytest.mark.parametrize("data", [{}, {"cursor": 1, "shown_bytes": 1}, {"cursor": "x", "shown_bytes": None}])
def test_what_is_no_position_is_none(data: dict[str, object]) -> None:
    """Without a position everything is shown again: nothing is lost."""
    assert Position.from_json(data) is None


@pytest.mark.parametrize(
    "end", [None, "SUCCEEDED", [], ["GONE", None], ["FAILED"], ["FAILED", 1], {"state": 1}]
)
def test_what_is_no_end_is_none(end: object) -> None:
    """The app may go on, as far as anybody knows."""
    position = Position.from_json({"cursor": "x", "shown_bytes": 1, "end": end})
    assert position is not None
    assert position.end is None


def test_the_result_of_a_success_is_kept_as_it_was_reported() -> None:
    """A try that does not see the app returns it."""
    result = {"loss": 0.25, "name": "ä", "none": None}
    status = End.of(AppStatus(state=AppState.SUCCEEDED, result=result)).success()
    assert status is not None
    assert (status.state, status.result) == (AppState.SUCCEEDED, result)


@pytest.mark.parametrize(
    ("state", "result"),
    [
        (AppState.FAILED, 1),
        (AppState.SUCCEEDED, "x" * RESULT_BYTES),
        (AppState.SUCCEEDED, {"key": "hunter2"}),
    ],
    ids=["no success", "too long", "with a secret"],
)
def test_what_is_no_success_or_not_kept_has_to_run_again(state: AppState, result: object) -> None:
    """A result that is not whole would be a wrong one, and a secret has no place on Prefect's server."""
    end = End.of(AppStatus(state=state, result=result), lambda text: text.replace("hunter2", "***"))
    assert (end.state, end.success()) == (state, None)
    assert "hunter2" not in str(end.to_json())


@pytest.mark.parametrize("source", ["", "r.0", "torchx.0", "r.0.reports"])
@pytest.mark.parametrize(
    "handle", ["local_cwd://torchx/a", "local_cwd://other/a", "local_cwd@box://torchx/a", "slurm://torchx/a"]
)
def test_a_records_name_says_which_app_it_is_of(source: str, handle: str) -> None:
    """Of this app and of no other one of that id, on whatever host; an earlier release's names too."""
    earlier = f"prefect.flow_runs.torchx.{source}".removesuffix(".") + f"@{handle}"
    for name in (record_name(source, handle), earlier):
        assert source_in(name, handle) == source
        for other in (
            "local_docker://torchx/a",
            "local_cwd://third/a",
            "local_cwd@shed://torchx/a",
            handle + "2",
        ):
            assert source_in(name, other) is None
    assert source_in("prefect.flow_runs.torchx", handle) is None
