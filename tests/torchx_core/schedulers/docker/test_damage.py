# pyright: reportUnknownMemberType=false
"""One damaged record of one app: only our own errors, the other apps unharmed, and the id can be freed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path

import pytest
from damage import TEXT_DAMAGES, damaged, raw_errors
from docker_apps import app, connected, end, make_runner, role
from docker_engine import DockerEngine

from torchx_core.errors import CorruptRecordError, StoredStateError
from torchx_core.runner import Runner
from torchx_core.schedulers.docker.answers import Volume
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.content import Planned, Stop, dumped
from torchx_core.schedulers.docker.history import app_history, last_word, replica_history
from torchx_core.schedulers.docker.labels import CONTENT, KIND, app_key, app_name, common, of_app, record_name
from torchx_core.schedulers.docker.records import decode, dump_stop
from torchx_core.schedulers.docker.view import dump_final, status, view_of
from torchx_core.schedulers.docker.volume_state import VolumeState
from torchx_core.specs import AppDef, AppState, Role
from torchx_core.testing import wait_until
from torchx_core.testing.steps import Hold, Print

HANDLE = "local_docker://tests/bad"
NAME = app_name("tests", "bad")
RUNS = app_name("tests", "runs")
KINDS = ("spec", "begun", "stop", "restart.1", "owner.1", "final")
ON_AN_ENGINE = (
    "empty",
    "cut in the middle",
    "nested in whole",
    "first keys missing",
    "other keys missing",
    "texts instead",
    "nothing within",
    "newer",
)


def record(kind: str, content: Mapping[str, object]) -> Volume:
    """A record of the app."""
    name = NAME if kind == "spec" else record_name(NAME, "abc", kind)
    return Volume(name=name, labels={**common("tests", "bad", kind), CONTENT: dumped(content)})


def _records() -> Iterator[Volume]:
    """All records of an app that has failed, and failed again after its restart."""
    planned = Planned(
        index=0, role="r", replica=0, container="c", policy="ROLE", max_retries=1, by_engine=False
    )
    asked = {
        "app": AppDef("app", [Role("r", "image", entrypoint="x")]).to_dict(),
        "cfg": {"grace_s": 1.0, "shim": "sh"},
        "secrets": {"r.env.TOKEN": "digest"},
    }
    spec = {"nonce": "abc", "salt": "s", "submitted_at": 1.0, "asked": asked, "replicas": [asdict(planned)]}
    stop = Stop(outcome="FAILED", msg="enough", grace_s=1.0, time=9.0, cause=0)
    yield record("spec", spec)
    yield record("begun", {"time": 2.0})
    yield record("restart.1", {"targets": {"0": 1}, "cause": "it failed", "time": 4.0})
    yield record("stop", dump_stop(stop))
    yield record("owner.1", {"token": "somebody"})
    known = decode([record("spec", spec), record("begun", {"time": 2.0})])
    assert known
    final = dump_final(view_of(known, (), VolumeState(), {}), "FAILED", "enough", {"loss": 0.5}, 10.0)
    yield record("final", {**final, "attempts": [[{"number": 1, "started_at": 3.0, "code": 3}]]})


RECORDS = {volume.labels[KIND]: volume for volume in _records()}


def with_damage(kind: str, damage: str, scratch: Path) -> list[Volume]:
    """The records, one of them damaged."""
    text = damaged(RECORDS[kind].labels[CONTENT], damage, scratch)
    bad = Volume(name=RECORDS[kind].name, labels={**RECORDS[kind].labels, CONTENT: text})
    return [bad if k == kind else volume for k, volume in RECORDS.items()]


def test_the_records_are_sound() -> None:
    """Undamaged, they tell of the app."""
    records = decode(list(RECORDS.values()))
    assert records
    assert status(view_of(records, (), VolumeState(), {})).state == AppState.FAILED
    assert (records.owner, len(records.restarts)) == ("somebody", 1)
    assert set(RECORDS) == set(KINDS)


@pytest.mark.parametrize("damage", TEXT_DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("over", [True, False])
def test_a_damaged_record_is_a_named_error(
    kind: str, damage: str, over: bool, tmp_path: Path
) -> None:  # pytest's
    """Whatever a record says, it is read as it can be, or found to be damaged where it is read."""
    volumes = [v for v in with_damage(kind, damage, tmp_path / "text") if over or v.labels[KIND] != "final"]
    with suppress(StoredStateError):
        records = decode(volumes)
        assert records
        view = view_of(records, (), VolumeState(), {})
        assert status(view).state
        app_history(view)
        for replica in view.replicas:
            replica_history(view, replica)
        if view.over:
            assert last_word(view).state
        assert records.app.app.name


@pytest.fixture(scope="module")
def good(frail_engine: DockerEngine) -> str:
    """Where an app has ended, and stays as it is."""
    with make_runner(frail_engine.url) as runner:
        handle = runner.run(app(Print("one"), Print("two")), "local_docker", app_id="good")
        assert end(runner, handle).state == AppState.SUCCEEDED
    return frail_engine.url


@pytest.fixture
def runner(good: str) -> Iterator[Runner]:
    """A runner of it."""
    with make_runner(good) as runner:
        yield runner


@pytest.fixture
def mine(good: str) -> Iterator[Engine]:
    """Our client of the engine."""
    with closing(connected(good)) as mine:
        yield mine


def check_good(runner: Runner) -> None:
    """See that the other app is as it was."""
    lines = [line.text for batch in runner.follow("local_docker://tests/good") for line in batch.lines()]
    assert lines == ["one", "two"]


@pytest.mark.parametrize("damage", ON_AN_ENGINE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_record_on_an_engine(
    runner: Runner, mine: Engine, kind: str, damage: str, tmp_path: Path
) -> None:
    """Each verb works or raises a named error, no other app is harmed, and a delete by force frees the id."""
    for volume in with_damage(kind, damage, tmp_path / "text"):
        mine.create_volume(volume.name, volume.labels)
    rows = {row.app_id: row for row in runner.list("local_docker")}
    assert rows["good"].state == AppState.SUCCEEDED
    if rows["bad"].state == AppState.UNKNOWN:
        assert f"{RECORDS[kind].name}" in rows["bad"].error
    assert raw_errors(runner, HANDLE, "r") == []
    assert not [v.name for v in mine.volumes({}) if v.name.startswith(NAME)]
    check_good(runner)


@pytest.fixture(scope="module")
def nonce(good: str) -> Iterator[str]:
    """Which one of its id an app is that runs."""
    with make_runner(good) as runner, closing(connected(good)) as mine:
        handle = runner.run(AppDef("app", [role("r", Print("up"), Hold())]), "local_docker", app_id="runs")
        wait_until(lambda: (s := runner.status(handle)) and s.state == AppState.RUNNING, 240)
        (begun,) = [v.name for v in mine.volumes({}) if v.name.startswith(RUNS) and "begun" in v.name]
    yield begun.split(".")[1]
    with make_runner(good) as runner:
        runner.cancel(handle, grace_s=0)
        end(runner, handle)
        runner.delete(handle)


@pytest.mark.parametrize("damage", ["empty", "cut in the middle", "texts instead", "newer"])
@pytest.mark.parametrize("kind", ["stop", "restart.1", "owner.1", "final"])
def test_a_damaged_record_of_a_running_app(
    runner: Runner, mine: Engine, nonce: str, kind: str, damage: str, tmp_path: Path
) -> None:
    """The app goes on running, and is itself again when the record is gone."""
    (bad,) = [v for v in with_damage(kind, damage, tmp_path / "text") if v.labels[KIND] == kind]
    name = record_name(RUNS, nonce, kind)
    mine.create_volume(name, {**bad.labels, **common("tests", "runs", kind)})
    ending = ("take_over", "cancel", "delete", "delete by force")
    raw = raw_errors(runner, "local_docker://tests/runs", "r", without=ending)
    mine.remove_volume(name)
    assert raw == []
    state = runner.status("local_docker://tests/runs")
    assert state
    assert state.state == AppState.RUNNING
    check_good(runner)


def test_a_running_app_with_a_damaged_record_is_ended_by_force(runner: Runner, mine: Engine) -> None:
    """Its containers go with its records, and a submit of the id says before what is wrong and what to do."""
    one = AppDef("app", [role("r", Print("up"), Hold())])
    handle = runner.run(one, "local_docker", app_id="worse")
    name = app_name("tests", "worse")
    (begun,) = [v for v in mine.volumes({}) if v.name.startswith(name) and v.name.endswith(".begun")]
    mine.remove_volume(begun.name)
    mine.create_volume(begun.name, {**begun.labels, CONTENT: "{}"})
    advice = "torchx-core delete --force local_docker://tests/worse"
    for act in (lambda: runner.run(one, "local_docker", app_id="worse"), lambda: runner.delete(handle)):
        with pytest.raises(CorruptRecordError, match=advice):
            act()
    runner.delete(handle, force=True)
    assert not [v.name for v in mine.volumes({}) if v.name.startswith(name)]
    assert not mine.containers(of_app(app_key("tests", "worse")))


def test_pruning_goes_past_a_damaged_record(runner: Runner, mine: Engine, tmp_path: Path) -> None:
    """It removes what nobody uses, and leaves the damaged app to a delete by force."""
    for volume in with_damage("spec", "empty", tmp_path / "text"):
        mine.create_volume(volume.name, volume.labels)
    stray = record_name(app_name("tests", "gone"), "0" * 12, "stop")
    mine.create_volume(stray, common("tests", "gone", "stop"))
    runner.prune("local_docker", max_age_s=1e9)
    left = {v.name for v in mine.volumes({})}
    assert stray not in left
    assert {volume.name for volume in RECORDS.values()} <= left
    runner.delete(HANDLE, force=True)
    check_good(runner)
