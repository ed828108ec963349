"""Who asks about an app again and again is told what is so now, though little of it is read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_apps import app_of

from torchx_core import Runner
from torchx_core.schedulers.local.replay import Replay
from torchx_core.supervisor import machine
from torchx_core.supervisor.journal import encode_event
from torchx_core.supervisor.plan import Plan, ReplicaPlan, fresh_state
from torchx_core.supervisor.records import JOURNAL

PLAN = Plan([ReplicaPlan("main", 0, ["true"], {}, "/", "/", max_retries=9)])
EVENTS: list[machine.Event] = [
    machine.Began(1.0, 7),
    machine.Started(2.0, 0, 0, 8, ""),
    machine.Exited(3.0, 0, 0, 1, None, ""),
    machine.Started(4.0, 0, 1, 9, ""),
    machine.StopAsked(5.0, machine.CANCELLED, "enough", 0.0),
]
DATA = b"".join(map(encode_event, EVENTS))


def told(data: bytes) -> machine.State:
    """Return what the whole lines say."""
    whole = data[: data.rfind(b"\n") + 1].count(b"\n")
    return machine.replay(fresh_state(PLAN), EVENTS[:whole])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, len(DATA)), max_size=6).map(sorted))
def test_a_journal_is_read_on_wherever_it_was_cut(tmp_path: Path, cuts: list[int]) -> None:
    """What was still being written is read when it is whole, and no event counts twice."""
    journal, replay = tmp_path / JOURNAL, Replay(str(tmp_path), PLAN)
    journal.write_bytes(b"")
    for cut in [*cuts, len(DATA)]:
        with journal.open("ab") as file:
            file.write(DATA[file.tell() : cut])
        assert replay.state() == told(DATA[:cut])


@pytest.mark.parametrize("how", ["shorter", "another", "absent"])
def test_another_journal_is_read_from_its_beginning(tmp_path: Path, how: str) -> None:
    """One that was put back from a copy, say."""
    journal, replay = tmp_path / JOURNAL, Replay(str(tmp_path), PLAN)
    journal.write_bytes(DATA)
    assert replay.state() == told(DATA)
    left = b"".join(map(encode_event, EVENTS[:2]))
    match how:
        case "shorter":
            journal.write_bytes(left)
        case "another":
            (tmp_path / "copy").write_bytes(left + b" " * len(DATA))
            (tmp_path / "copy").rename(journal)
        case _:
            left = b""
            journal.unlink()
    assert replay.state() == told(left)


def test_what_a_stranger_wrote_hides_no_event(tmp_path: Path) -> None:
    """A supervisor writes its next line where its last one ended, over whatever is there."""
    journal, replay = tmp_path / JOURNAL, Replay(str(tmp_path), PLAN)
    own = b"".join(map(encode_event, EVENTS[:2]))
    journal.write_bytes(own + b'{"event":"Swept","time":1}\n')
    replay.state()
    journal.write_bytes(DATA)
    assert replay.state() == told(DATA)


def test_what_one_caller_does_to_an_app_no_other_sees(runner: Runner) -> None:
    """Its record is kept in memory, what is made of it is each caller's own."""
    handle = runner.run(app_of("true", env={"A": "1"}, port_map={"web": 80}), "local_cwd")
    first, second = runner.describe(handle), runner.describe(handle)
    assert first is not None
    assert first == second
    (role,) = first.roles
    role.env["A"], role.port_map["web"], role.resource.capabilities["x"] = "2", 81, 1
    role.args.append("no")
    first.metadata["owner"] = "me"
    assert runner.describe(handle) == second
    runner.wait(handle)
