from __future__ import annotations

import json

import pytest

from prefect_torchx.position import Position


def test_a_position_survives_json() -> None:
    """It is saved by one process and read by another."""
    position = Position(cursor='{"v": 1}', shown_bytes=7, times={"r.0": 5.5})
    assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


@pytest.mark.parametrize("data", [{}, {"cursor": 1, "shown_bytes": 1}, {"cursor": "x", "shown_bytes": None}])
def test_what_is_no_position_is_none(data: dict[str, object]) -> None:
    """Without a position everything is shown again: nothing is lost."""
    assert Position.from_json(data) is None
