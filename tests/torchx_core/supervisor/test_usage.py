"""What attempts have used: from wait4(2), from control groups, and added up."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from torchx_core.supervisor import machine
from torchx_core.supervisor.final import FinalRecord, encode_final, read_final
from torchx_core.supervisor.reading import DamagedFile
from torchx_core.supervisor.records import FINAL
from torchx_core.supervisor.usage import (
    Tally,
    Used,
    after_attempt,
    group_cpu_s,
    group_peak_bytes,
    out_of_memory,
)

FRESH = machine.State((machine.Replica("r", 0, "REPLICA", 3),))


def _burn(seconds: float) -> None:
    while sum(os.times()[:2]) < seconds:
        pass
    os._exit(0)


def test_processes_of_an_attempt_are_added_up() -> None:
    """CPU times are summed up and the greatest peak counts, per attempt; what was told is forgotten."""
    tally = Tally()
    for owner in (1, 1, 2):
        pid = os.fork()
        if pid == 0:
            _burn(0.05)
        tally.take(owner, os.wait4(pid, 0)[2])
    (cpu_s, peak_mb), (less_s, _) = tally.close(1, ()), tally.close(2, ())
    assert cpu_s >= 0.1
    assert 0.05 <= less_s < cpu_s
    assert peak_mb >= 1
    assert tally.close(1, ()) == (0.0, 0)


def test_a_control_group_knows_better(tmp_path: Path) -> None:
    """Its figures count: of version 2, and of version 1, whose controllers have directories of their own."""
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "memory.peak").write_text(f"{(64 << 20) + 1}\n")
    assert Tally().close(1, [str(tmp_path)]) == (2.5, 65)
    memory, cpu = tmp_path / "memory", tmp_path / "cpu"
    memory.mkdir()
    cpu.mkdir()
    (memory / "memory.max_usage_in_bytes").write_text("1048576\n")
    (cpu / "cpuacct.usage").write_text("1500000000\n")
    (cpu / "cpu.stat").write_text("nr_periods 0\n")
    assert Tally().close(1, [str(memory), str(cpu)]) == (1.5, 1)


@pytest.mark.parametrize("text", ["", "max\n", "-1\n", "\0\n"])
def test_a_group_that_does_not_say_is_none(tmp_path: Path, text: str) -> None:
    """An old kernel has no such file, and what is no number is not known."""
    for name in ("memory.peak", "cpuacct.usage", "cpu.stat"):
        assert (group_peak_bytes([str(tmp_path)]), group_cpu_s([str(tmp_path)])) == (None, None)
        (tmp_path / name).write_text(text)
    assert (group_peak_bytes([str(tmp_path)]), group_cpu_s([str(tmp_path)])) == (None, None)


def test_attempts_add_up() -> None:
    """Times are summed up, the greatest peak counts, and what is not known of one is not known of all."""
    first = after_attempt(None, 10.0, 12.5, 1.25, 100)
    assert first == Used(1.25, 2.5, 100)
    assert after_attempt(first, 20.0, 21.0, 0.5, 70) == Used(1.75, 3.5, 100)
    assert after_attempt(first, 20.0, 21.0) == Used(None, 3.5, None)
    assert after_attempt(first, 21.0, 20.0, 0.5, 170) == Used(1.75, 2.5, 170)  # the clock was set back


def test_the_machine_adds_up_attempts() -> None:
    """Of an attempt whose end nobody saw, only how long it ran is known."""
    events: list[machine.Event] = [
        machine.Began(0.0, 1),
        machine.Started(1.0, 0, 0, 7),
        machine.Exited(3.0, 0, 0, 1, None, max_rss_mb=50, cpu_s=1.5),
        machine.Swept(3.5),
        machine.Started(4.0, 0, 1, 8),
    ]
    state = machine.replay(FRESH, events)
    assert state.replicas[0].used == Used(1.5, 2.0, 50)
    assert machine.fold(state, machine.Lost(6.0, "gone")).replicas[0].used == Used(None, 4.0, None)


def _final_of(state: machine.State, directory: Path, **changed: object) -> machine.State | None:
    record = json.loads(json.dumps({**encode_final(state), **changed}))
    (directory / FINAL).write_text(json.dumps({k: v for k, v in record.items() if v != "gone"}))
    return read_final(str(directory))


def test_the_final_record_has_it(tmp_path: Path) -> None:
    """It is read back; a record of the release before has none, and that release finds no field it lacks."""
    used = (Used(1.5, 2.0, 50), None)
    replicas = tuple(machine.Replica("r", i, "REPLICA", 0, used=used[i]) for i in range(2))
    state = machine.State(replicas, phase=machine.ENDED, outcome=machine.FAILED)
    FinalRecord(str(tmp_path), 2).write(state)
    assert read_final(str(tmp_path)) == state
    told = json.loads((tmp_path / FINAL).read_text())["state"]["replicas"]
    assert all("used" not in row for row in told)
    before = _final_of(state, tmp_path, used="gone")
    assert before
    assert [replica.used for replica in before.replicas] == [None, None]


@pytest.mark.parametrize("used", [7, [{"cpu_s": "much"}], [{}, {}, {}], [{"joules": 1}], [3]])
def test_damage_in_it_is_told(tmp_path: Path, used: object) -> None:
    """A record that says something else there is refused as damaged, never taken for another."""
    state = machine.State(FRESH.replicas, phase=machine.ENDED, outcome=machine.FAILED)
    with pytest.raises(DamagedFile):
        _final_of(state, tmp_path, used=used)


def test_out_of_memory_is_said_with_what_is_known() -> None:
    """Peak and limit, or one of them, or neither."""
    assert out_of_memory(512, 512) == "out of memory: peak 512 MB of 512 MB allowed by memMB"
    assert out_of_memory(None, 512) == "out of memory: memMB allows 512 MB"
    assert out_of_memory(512, None) == "out of memory: peak 512 MB"
    assert out_of_memory(None, None) == "out of memory"
