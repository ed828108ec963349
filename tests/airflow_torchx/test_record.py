from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_torchx._record import VERSION, Record
from torchx_core.errors import NewerRecordError

RECORD = Record(
    handle="local_cwd://s/a",
    generation=3,
    attempt=1,
    try_number=4,
    salt="x",
    submitted=True,
    cursor='{"v": 1}',
    lease_s=600.0,
    deadline=1.8e9,
)


def test_a_record_survives_storage() -> None:
    """What one try writes the next one reads, through JSON."""
    assert Record.from_json(json.loads(json.dumps(RECORD.to_json())), "here") == RECORD


def test_a_newer_record_is_refused() -> None:
    """An older provider says that it cannot read the record, and does not guess."""
    newer = {**RECORD.to_json(), "version": VERSION + 1}
    with pytest.raises(NewerRecordError, match="here has format 3"):
        Record.from_json(newer, "here")


def test_a_record_of_version_1_is_read() -> None:
    """It does not say when its app must end; a worker that was updated between two tries goes on with it."""
    older = {name: value for name, value in RECORD.to_json().items() if name != "deadline"} | {"version": 1}
    assert Record.from_json(older, "here") == replace(RECORD, deadline=None)
