"""Records and containers, put together and told as a status; pure."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from torchx_core.errors import CorruptRecordError, NewerRecordError
from torchx_core.schedulers.docker.answers import Container, Inspection, Volume
from torchx_core.schedulers.docker.history import replica_history
from torchx_core.schedulers.docker.labels import app_name, common, of_replica, record_name
from torchx_core.schedulers.docker.records import Planned, Records, Stop, decode, dump_stop
from torchx_core.schedulers.docker.view import (
    AppView,
    Phase,
    dump_final,
    replica_state,
    status,
    unexplained,
    view_of,
)
from torchx_core.schedulers.docker.volume_state import Attempt, VolumeState
from torchx_core.specs import NONE, AppDef, AppState, Role

_NONCE = "abc"
_ENDED = Inspection(
    running=False,
    exit_code=137,
    started_at="2026-01-02T03:04:05.123456789Z",
    finished_at="2026-01-02T03:04:06.5Z",
    oom_killed=False,
    error="",
    restarts=0,
)


def volume(kind: str, content: dict[str, object] | str, nonce: str = _NONCE) -> Volume:
    """A record of the app ``one``."""
    name = app_name("s", "one")
    full = name if kind == "spec" else record_name(name, nonce, kind)
    text = content if isinstance(content, str) else json.dumps({"version": 1, **content})
    return Volume(name=full, labels={**common("s", "one", kind), "torchx-core.content": text})


def spec(shim: str = "sh") -> Volume:
    """The app's own record: two replicas of one role."""
    planned = [
        Planned(
            index=i, role="r", replica=i, container=f"c{i}", policy="ROLE", max_retries=0, by_engine=False
        )
        for i in range(2)
    ]
    asked = {
        "app": AppDef("app", [Role("r", "image", entrypoint="x", num_replicas=2)]).to_dict(),
        "cfg": {"grace_s": 1.0, "shim": shim},
        "secrets": {},
    }
    return volume(
        "spec",
        {
            "nonce": _NONCE,
            "salt": "",
            "submitted_at": 1.0,
            "asked": asked,
            "replicas": [asdict(p) for p in planned],
        },
    )


def records(*others: Volume, shim: str = "sh") -> Records:
    """The app's records."""
    found = decode([spec(shim), *others])
    assert found is not None
    return found


def container(index: int, state: str) -> Container:
    """A replica's container."""
    labels = of_replica("s", "one", "r", index, index)
    return Container(id=f"id{index}", name=f"c{index}", state=state, status="", labels=labels)


BEGUN = volume("begun", {"time": 2.0})
STOP = Stop(outcome="CANCELLED", msg="enough", grace_s=1.0, time=9.0)


def test_records_are_told_apart() -> None:
    """By kind and number; those of an app that was deleted before do not count."""
    owners = [volume(f"owner.{n}", {"token": f"t{n}"}) for n in (9, 10)]
    restart = volume("restart.1", {"targets": {"0": 1}, "cause": "why", "time": 5.0})
    stale = volume("final", {"status": {}}, nonce="old")
    found = records(BEGUN, *owners, restart, volume("stop", dict(dump_stop(STOP))), stale)
    assert (found.begun_at, found.owner, found.owner_number, found.stop) == (2.0, "t10", 10, STOP)
    assert [(r.number, r.targets, r.cause) for r in found.restarts] == [(1, {0: 1}, "why")]
    assert found.final is None
    assert decode([BEGUN]) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": "x"}'])
def test_a_record_that_cannot_be_read_is_named(text: str) -> None:
    """By its volume."""
    with pytest.raises(CorruptRecordError, match=app_name("s", "one")):
        decode([volume("spec", text)])


def test_a_newer_record_is_not_guessed_at() -> None:
    """The error says which version this library reads."""
    with pytest.raises(NewerRecordError, match="format 99, this library reads up to 1"):
        decode([volume("spec", '{"version": 99}')])


@pytest.mark.parametrize(
    ("begun", "containers", "state"),
    [
        ((), ["created"], AppState.SUBMITTED),
        ((BEGUN,), ["created", "created"], AppState.PENDING),
        ((BEGUN,), ["running", "created"], AppState.RUNNING),
        ((BEGUN,), ["exited", "restarting"], AppState.RUNNING),
    ],
)
def test_where_an_app_is(begun: tuple[Volume, ...], containers: list[str], state: AppState) -> None:
    """Before its end, which only the final record tells."""
    found = [container(i, s) for i, s in enumerate(containers)]
    assert status(view_of(records(*begun), found, VolumeState(), {})).state == state


@pytest.mark.parametrize(
    ("peak_mb", "limit_mb", "told", "code", "short"),
    [
        (32, 32, False, 137, True),
        (31, 32, False, 137, False),
        (32, 32, True, 137, False),
        (32, 32, False, 1, False),
        (None, 32, False, 137, False),
        (32, -1, False, 137, False),
    ],
)
def test_memory_that_the_engine_has_not_noticed(
    peak_mb: int | None, limit_mb: int, told: bool, code: int, short: bool
) -> None:
    """Of a container that was killed with all that it may have, it may know only that it has ended."""
    attempt = Attempt(number=0, started_at=1.0, ended_at=2.0, code=code, told=told, peak_mb=peak_mb)
    found = records(BEGUN)
    found.app.app.roles[0].resource.memMB = limit_mb
    volume_state = VolumeState(attempts={0: (attempt,)})
    first, _ = view_of(found, [container(0, "exited")], volume_state, {0: _ENDED}).replicas
    assert first.last == replace(attempt, oom=short)


def test_an_attempt_without_an_end_is_explained_by_the_engine() -> None:
    """Its script died with it."""
    found = [container(0, "exited"), container(1, "running")]
    volume_state = VolumeState(
        attempts={0: (Attempt(number=0, started_at=1.0),), 1: (Attempt(number=0, started_at=1.0),)}
    )
    assert [c.id for c in unexplained(found, volume_state)] == ["id0"]
    first, second = view_of(records(BEGUN), found, volume_state, {0: _ENDED}).replicas
    assert first.last == Attempt(number=0, started_at=1.0, ended_at=1767323046.5, code=137)
    assert second.last == Attempt(number=0, started_at=1.0)


def test_what_was_started_meanwhile_is_up() -> None:
    """The list was made before."""
    view = view_of(
        records(BEGUN), [container(0, "exited")], VolumeState(), {0: replace(_ENDED, running=True)}
    )
    assert view.replicas[0].phase == Phase.UP


def test_without_the_script_the_engine_tells_all() -> None:
    """Times and exit code of the last attempt, and how many there were."""
    view = view_of(
        records(BEGUN, shim="none"), [container(0, "exited")], VolumeState(), {0: replace(_ENDED, restarts=2)}
    )
    last = view.replicas[0].last
    assert last is not None
    assert (last.number, last.code) == (2, 137)
    assert last.started_at == pytest.approx(1767323045.123456789)


def ended() -> AppView:
    """An app of which one replica was stopped and one never began."""
    volume_state = VolumeState(
        attempts={0: (Attempt(number=0, started_at=3.0, ended_at=8.0, code=143, told=True),)},
        errors={(0, 0): '{"message": "oh"}'},
    )
    stopped = records(BEGUN, volume("stop", dict(dump_stop(STOP))))
    return view_of(stopped, [container(0, "exited"), container(1, "created")], volume_state, {})


@pytest.mark.parametrize(("cause", "state"), [(0, AppState.FAILED), (1, AppState.CANCELLED)])
def test_only_the_cause_of_an_end_has_failed(cause: int, state: AppState) -> None:
    """A replica that was stopped together with its engine is why the app ends; another one was told to."""
    stop = replace(STOP, outcome="FAILED", cause=cause)
    found = records(BEGUN, volume("stop", dict(dump_stop(stop))))
    assert found.stop == stop
    volume_state = VolumeState(
        attempts={0: (Attempt(number=0, started_at=3.0, ended_at=8.0, code=143, told=True),)}
    )
    view = view_of(found, [container(0, "exited"), container(1, "exited")], volume_state, {})
    assert replica_state(view, view.replicas[0], ended=True) == state
    final = dump_final(view, "FAILED", "why", None, 99.0)
    later = view_of(records(volume("final", dict(final))), (), VolumeState(), {})
    assert [change.state for change in replica_history(later, later.replicas[0])] == [AppState.RUNNING, state]


@pytest.mark.parametrize(
    ("code", "state"), [(0, AppState.SUCCEEDED), (3, AppState.FAILED), (None, AppState.FAILED)]
)
def test_what_a_removed_container_did_is_kept(code: int | None, state: AppState) -> None:
    """Its journal lies on the app's volume, which the others give access to."""
    ended_at = None if code is None else 8.0
    volume_state = VolumeState(
        attempts={0: (Attempt(number=0, started_at=3.0, ended_at=ended_at, code=code),)}
    )
    view = view_of(records(BEGUN), [container(1, "exited")], volume_state, {})
    assert view.replicas[0].phase == Phase.ABSENT
    final = dump_final(view, "FAILED", "why", None, 99.0)
    later = view_of(records(volume("final", dict(final))), (), VolumeState(), {})
    assert later.replicas[0].attempts == view.replicas[0].attempts
    assert status(later).roles[0].replicas[0].state == state
    assert [change.state for change in replica_history(later, later.replicas[0])] == [AppState.RUNNING, state]


def test_the_final_record_is_the_whole_truth() -> None:
    """It needs no other record, no container and no file: all of them may be gone."""
    view = ended()
    final = dump_final(view, "CANCELLED", "enough", {"a": 1}, 99.0)
    later = view_of(records(volume("final", dict(final))), (), VolumeState(), {})
    told = status(later)
    assert (told.state, told.msg, told.result) == (AppState.CANCELLED, "enough", {"a": 1})
    assert [(r.state, r.signal) for r in told.roles[0].replicas] == [
        (AppState.CANCELLED, "SIGTERM"),
        (AppState.CANCELLED, None),
    ]
    assert later.replicas[0].attempts == view.replicas[0].attempts
    assert (later.records.stop, later.records.begun_at, final["ended_at"]) == (STOP, 2.0, 8.0)
    assert told.roles[0].replicas[0].structured_error_msg == '{"message": "oh"}'
    assert told.structured_error_msg == NONE  # it was told to end, and has not failed


def test_an_app_that_is_ending_says_so() -> None:
    """With the reason; what has ended is told already."""
    told = status(ended())
    assert (told.state, told.msg) == (AppState.RUNNING, "stopping: enough")
    assert [r.state for r in told.roles[0].replicas] == [AppState.CANCELLED, AppState.PENDING]
