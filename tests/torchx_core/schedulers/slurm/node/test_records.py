"""Every record that a node reads is checked: a damaged one is as good as none, and hangs nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchx_core.schedulers.slurm.node.attempts import Attempts
from torchx_core.schedulers.slurm.node.files import number_in, read_json
from torchx_core.schedulers.slurm.node.orders import Orders

WRONG = ["{}", "[]", "", "{", '{"run": "x"}', '{"run": true}', '{"run": 1e300}']


@pytest.mark.parametrize("text", WRONG)
def test_an_attempt_whose_start_is_damaged_has_not_begun(tmp_path: Path, text: str) -> None:
    """The attempts around it count, and the next one takes another number."""
    attempts = Attempts(str(tmp_path))
    start = {"time": 1.0, "host": "n1", "run": 0, "orders": 0}
    assert [attempts.claim(start), attempts.claim(start)] == [0, 1]
    (tmp_path / "0" / "start.json").write_text(text)
    assert [attempt.number for attempt in attempts.begun()] == [1]
    assert attempts.claim(start) == 2


@pytest.mark.parametrize(
    "text", ["{}", '{"code": "0", "told": false}', '{"code": 0}', '{"code": 0, "told": 1}']
)
def test_an_attempt_whose_end_is_damaged_has_not_ended(tmp_path: Path, text: str) -> None:
    """It has neither succeeded nor failed."""
    attempts = Attempts(str(tmp_path))
    attempts.claim({"time": 1.0, "host": "n1", "run": 0, "orders": 0})
    (tmp_path / "0" / "end.json").write_text(text)
    (attempt,) = attempts.begun()
    assert (attempt.succeeded, attempt.failed) == (False, False)


@pytest.mark.parametrize("text", ["{}", "", '{"run": 0}', '{"run": 0, "indices": 0}', '{"indices": [0]}'])
def test_a_damaged_order_is_nobodys(tmp_path: Path, text: str) -> None:
    """It starts nobody again, and whoever gives the next one takes the number after it."""
    (tmp_path / "restart.0.json").write_text(text)
    Orders(str(tmp_path), 0, 0).give([0, 1])
    assert json.loads((tmp_path / "restart.1.json").read_text())["indices"] == [0, 1]
    other = Orders(str(tmp_path), 1, 0)
    assert [other.obey(), other.obey()] == [True, False]


@pytest.mark.parametrize("value", [None, "x", True, -1, 1e300, [], float("nan")])
def test_a_time_that_is_none_counts_as_absent(tmp_path: Path, value: object) -> None:
    """A program is then given the app's own grace period."""
    path = tmp_path / "stop.json"
    path.write_text(json.dumps({"grace_s": value}))
    stop = read_json(str(path))
    assert stop is not None
    assert number_in(stop, "grace_s") is None
    assert number_in({}, "grace_s") is None
    assert number_in({"grace_s": 2}, "grace_s") == 2.0
