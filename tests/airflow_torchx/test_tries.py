from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_tries import make_try

from airflow_torchx._tries import make_app_id, try_number_of, was_given_up
from torchx_core.specs import make_app_handle, parse_app_handle

TRY = make_try(dag_id="My DAG", task_id="group.train", run_id="manual__2026-01-01T00:00:00+00:00")


def test_an_app_id_reads_like_its_task() -> None:
    """Somebody who lists apps sees which task each belongs to, and which attempt it is."""
    assert re.fullmatch(r"my-dag-group-train-[0-9a-f]{10}", make_app_id(TRY, salt="", attempt=0))
    assert re.fullmatch(
        r"my-dag-group-train-7-[0-9a-f]{10}-3", make_app_id(replace(TRY, map_index=7), salt="", attempt=2)
    )


@given(
    dag_id=st.text(min_size=1), task_id=st.text(min_size=1), run_id=st.text(), map_index=st.integers(-1, 9999)
)
def test_an_app_id_is_a_safe_name(dag_id: str, task_id: str, run_id: str, map_index: int) -> None:
    """Whatever Airflow calls things, the id fits in a handle, a file name and a container name."""
    named = make_try(dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)
    app_id = make_app_id(named, salt="", attempt=99)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,49}", app_id)
    assert parse_app_handle(make_app_handle("local_cwd", "s", app_id)).app_id == app_id


@pytest.mark.parametrize(
    "other",
    [{"dag_id": "My-DAG"}, {"run_id": "x"}, {"task_id": "group_train"}, {"map_index": 0}, {"generation": 3}],
    ids=lambda other: next(iter(other)),
)
def test_different_work_has_different_ids(other: dict[str, Any]) -> None:
    """Everything that makes a task instance another one, or asked for anew, changes the id."""
    assert make_app_id(TRY, salt="", attempt=0) != make_app_id(replace(TRY, **other), salt="", attempt=0)


def test_a_salt_and_an_attempt_change_the_id() -> None:
    """A run that was created again, and a retry after a failure, get apps of their own."""
    ids = [make_app_id(TRY, salt=salt, attempt=attempt) for salt in ("", "x") for attempt in (0, 1)]
    assert len(set(ids)) == 4


def test_a_retry_keeps_the_id() -> None:
    """What differs between two tries of one generation has no part in the id."""
    retry = replace(TRY, number=2, ti_id="other")
    assert make_app_id(TRY, salt="s", attempt=0) == make_app_id(retry, salt="s", attempt=0)


def test_a_token_tells_its_try() -> None:
    """The owner token of an app names the try that has it."""
    assert try_number_of(make_try(number=12).token) == 12


def test_a_token_of_what_was_given_up_names_its_try_too() -> None:
    """Whoever finds it knows who gave the app up, and that nobody owns it in earnest."""
    gone = make_try(number=12)
    assert try_number_of(gone.cancelled_token) == 12
    assert [was_given_up(token) for token in (gone.cancelled_token, gone.token, None)] == [True, False, False]


def test_every_kind_of_run_has_apps_of_its_own() -> None:
    """A backfill of a date does not meet the app of that date's scheduled run, or of a manual one."""
    kinds = ("backfill", "scheduled", "manual", "asset_triggered")
    runs = [replace(TRY, run_id=f"{kind}__2026-01-01T00:00:00+00:00") for kind in kinds]
    assert len({make_app_id(run, salt="", attempt=0) for run in runs}) == len(kinds)


@pytest.mark.parametrize("token", [None, "", "prefect-1", "airflow-try-x-"])
def test_other_tokens_name_no_try(token: str | None) -> None:
    """Whoever else owns an app is older than any try."""
    assert try_number_of(token) == 0


@pytest.mark.parametrize(("number", "generation", "last"), [(1, 0, True), (1, 1, False), (2, 1, True)])
def test_the_last_try_knows_that_it_is(number: int, generation: int, *, last: bool) -> None:
    """Airflow retries while the try number is at most max_tries."""
    assert make_try(number=number, generation=generation).is_last is last
