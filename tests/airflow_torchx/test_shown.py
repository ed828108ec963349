from __future__ import annotations

import json
import os
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from airflow_dags import AIRFLOW
from hypothesis import given
from hypothesis import strategies as st
from local_apps import app_of

from airflow_torchx import TorchXRunOperator
from airflow_torchx._engine import Context
from airflow_torchx._engine_logs import TAIL_BYTES, lines_in, shown_before
from airflow_torchx._log import AppLog
from airflow_torchx._shown import Shown, ShownLine, instant
from torchx_core.schedulers import LogLines
from torchx_core.supervisor.reading import DamagedFile


def _before(*lines: tuple[str, float]) -> list[ShownLine]:
    return [ShownLine(instant(time), text) for text, time in lines]


def _left(shown: Shown, *lines: tuple[str, float]) -> list[str]:
    return [text for text, time in lines if shown.left_of(text, time)]


@given(
    runs=st.lists(st.tuples(st.integers(0, 1), st.lists(st.sampled_from("ab"), min_size=1)), max_size=8),
    saved=st.integers(0, 8),
    cut=st.integers(0, 40),
)
def test_no_line_is_lost(runs: list[tuple[int, list[str]]], saved: int, cut: int) -> None:
    """Wherever the position was saved and the log broke off, what is shown then and now is all there is."""
    lines = [[(f"[r/{whose}] {text}", float(i)) for text in texts] for i, (whose, texts) in enumerate(runs)]
    every = [*chain.from_iterable(lines)]
    after = [*chain.from_iterable(lines[saved:])]
    old = every[: max(cut, len(every) - len(after))]
    shown = Shown(_before(*old))

    now = _left(shown, *after)

    for replica in ("[r/0]", "[r/1]"):
        then = [text for text, _ in old if text.startswith(replica)]
        again = [text for text in now if text.startswith(replica)]
        assert len(then) + len(again) >= len([text for text, _ in every if text.startswith(replica)])
        assert not again or [text for text, _ in every if text.startswith(replica)][-len(again) :] == again


@given(count=st.integers(1, 30), saved=st.integers(0, 30), cut=st.integers(0, 30))
def test_no_line_is_repeated(count: int, saved: int, cut: int) -> None:
    """Where lines differ, in text or in time, each is shown once."""
    saved, cut = min(saved, count), min(max(saved, cut), count)
    every = [(f"[r/0] {i // 2}", float(i)) for i in range(count)]
    shown = Shown(_before(*every[:cut]))
    assert _left(shown, *every[saved:]) == [text for text, _ in every[cut:]]


def test_replicas_may_come_in_another_order() -> None:
    """Each one's lines are in order, those of several are merged anew."""
    shown = Shown(_before(("[r/0] a", 1), ("[r/1] a", 1), ("[r/0] b", 2), ("[r/1] b", 2)))
    now = [("[r/1] a", 1.0), ("[r/1] b", 2.0), ("[r/1] c", 3.0), ("[r/0] a", 1.0), ("[r/0] b", 2.0)]
    assert _left(shown, *now) == ["[r/1] c"]


def test_reports_come_between_other_lines() -> None:
    """Progress and metrics are shown once a second, so another try shows others of them."""
    shown = Shown(_before(("[r/0] a", 1), ("[r/0] progress 5%", 2), ("[r/0] b", 3)))
    now = [("[r/0] a", 1.0), ("[r/0] b", 3.0), ("[r/0] progress 6%", 2.5), ("[r/0] c", 4.0)]
    assert _left(shown, *now) == ["[r/0] progress 6%", "[r/0] c"]


def test_equal_lines_at_the_break_are_shown_again() -> None:
    """One of them may be the one that is missing."""
    shown = Shown(_before(("[r/0] a", 1), ("[r/0] a", 1)))
    assert _left(shown, ("[r/0] a", 1.0)) == ["[r/0] a"]


def test_another_app_is_shown() -> None:
    """A line with the text of an earlier one, but another time, is shown as a line of its own."""
    shown = Shown(_before(("[r/0] a", 1), ("[r/0] b", 2)))
    assert _left(shown, ("[r/0] a", 3.0), ("[r/0] b", 4.0)) == ["[r/0] a", "[r/0] b"]


def test_a_record_keeps_the_rest_of_its_lines() -> None:
    """The log broke off within a record; secrets are compared as the log shows them."""
    said: list[str] = []
    shown = Shown(_before(("[r/1] one", 5), ("[r/1] ***", 5)), lambda text: text.replace("secret", "***"))
    log = AppLog(lambda _level, message, _time: said.append(message), before=shown)
    log.write(LogLines("r", 1, 0, "stdout", ("one", "secret", "three"), 5.0))
    assert said == ["[r/1] three"]


def _record(text: str, time: str, name: str = "airflow_torchx") -> str:
    return json.dumps({"timestamp": time, "level": "info", "event": text, "logger": name}) + "\n"


def test_a_log_file_is_read(tmp_path: Path) -> None:
    """Our records alone, a line at a time; what is cut or is no record is passed over."""
    file = tmp_path / "attempt=1.log"
    file.write_text(
        'cut "airflow_torchx"}\n'
        + _record("[r/0] a\n[r/0] b", "1970-01-01T00:00:05.250000Z")
        + _record("[r/0] c", "1970-01-01T00:00:05Z", "another")
        + _record("[r/0] d", "no time")
        + '["airflow_torchx"]\n'
        + _record("[r/0] e", "1970-01-01T00:00:06Z")
        + _record("[r/0] f", "1970-01-01T00:00:07Z")[:-3]
    )
    assert list(lines_in(file)) == _before(("[r/0] a", 5.25), ("[r/0] b", 5.25), ("[r/0] e", 6))


@pytest.mark.engine
@pytest.mark.skipif(AIRFLOW < (3, 3), reason="where no position is kept, nobody looks for them")
@pytest.mark.parametrize(
    ("remote", "texts"), [("False", ["[r/0] a", "[r/0] b", "[r/0] c", "[r/0] d"]), ("True", [])]
)
def test_the_files_of_earlier_tries_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: str, texts: list[str]
) -> None:
    """They are where the server looks for them, unless it looks in a remote place, which may lack them.

    A triggerer writes into a file of its own, which may be the only one on this host.
    """
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__LOGGING__REMOTE_LOGGING", remote)
    folder = tmp_path / "dag_id=d" / "run_id=[r]" / "task_id=t"
    folder.mkdir(parents=True)
    files = {
        "1.log": "a",
        "1.log.trigger.9.log": "b",
        "1.log.trigger.10.log": "c",
        "2.log.trigger.9.log": "d",
    }
    for name, text in (files | {"4.log": "e", "4.log.trigger.9.log": "f"}).items():
        (folder / f"attempt={name}").write_text(_record(f"[r/0] {text}", "1970-01-01T00:00:05Z"))
    task = TorchXRunOperator(task_id="t", app=app_of("true"))
    ti = SimpleNamespace(dag_id="d", run_id="[r]", task_id="t", map_index=-1, try_number=4, task=task)

    found = shown_before(cast("Context", {"ti": ti}))

    assert [line.text for line in found] == texts


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    """A log may have gigabytes."""
    file = tmp_path / "attempt=1.log"
    early = _record("[r/0] early", "1970-01-01T00:00:05Z")
    file.write_text(early + "x" * TAIL_BYTES + "\n" + _record("[r/0] late", "1970-01-01T00:00:06Z"))
    assert list(lines_in(file)) == _before(("[r/0] late", 6))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A FIFO would hold the task up for ever."""
    os.mkfifo(tmp_path / "log")
    with pytest.raises(DamagedFile, match="no regular file"):
        list(lines_in(tmp_path / "log"))


def test_of_lines_that_come_again_and_again_none_is_lost() -> None:
    """A scheduler without times gives all lines one: which of the equal ones is meant nobody can tell."""
    rounds = [("[r/0] epoch", 1.0), ("[r/0] ok", 1.0)]
    shown = Shown(_before(*rounds, *rounds, *rounds))
    assert _left(shown, *rounds, *rounds) == ["[r/0] epoch", "[r/0] ok"] * 2
