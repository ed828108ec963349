"""Who reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchx_core.sinks.place import Place

INSIDE = {"TORCHX_JOB_ID": "local_cwd://s/app-1", "TORCHX_ROLE": "trainer", "TORCHX_REPLICA": "3"}


def place_of(**more: str) -> Place:
    """Return the place that the environment tells."""
    place = Place.find({**INSIDE, **more})
    assert place is not None
    return place


def test_outside_an_app_there_is_no_place() -> None:
    """A program that runs by hand has no handle."""
    assert Place.find({"TORCHX_ROLE": "r"}) is None


def test_the_environment_tells_who_reports() -> None:
    """Each scheduler sets these variables."""
    place = place_of(TORCHX_ATTEMPT="2", LOCAL_RANK="1")
    assert (place.handle, place.app_id, place.role, place.replica) == (
        "local_cwd://s/app-1",
        "app-1",
        "trainer",
        "3",
    )
    assert (place.attempt, place.local_rank, place.title) == (2, 1, "app-1 trainer/3")


@pytest.mark.parametrize("odd", ["", "x", "-1", "1.5"])
def test_odd_numbers_are_zero(odd: str) -> None:
    """A program may have set them for itself."""
    assert place_of(TORCHX_ATTEMPT=odd, LOCAL_RANK=odd) == place_of()


def test_each_process_of_a_replica_has_a_folder_of_its_own() -> None:
    """TensorBoard wants one writer in a folder at a time; attempts go on in one folder."""
    assert place_of().folder == place_of(TORCHX_ATTEMPT="1").folder == "app-1/trainer-3"
    assert place_of(LOCAL_RANK="2").folder == "app-1/trainer-3/rank-2"


@pytest.mark.parametrize("name", ["..", ".", "a/../b", "a b\n", "ü", "'; rm", "…"])
def test_a_folder_stays_below_its_parent(name: str) -> None:
    """Whatever app and role are called."""
    place = place_of(TORCHX_JOB_ID=f"fake://s/{name}", TORCHX_ROLE=name)
    folder = Path("/runs", place.folder)
    assert folder == folder.resolve()
    assert Path("/runs") in folder.parents


def test_keys_tell_replicas_apart() -> None:
    """The same in each attempt, another for another replica, role, app or process."""
    assert place_of().key() == place_of(TORCHX_ATTEMPT="4").key()
    others = [{"TORCHX_REPLICA": "4"}, {"TORCHX_ROLE": "trainer\0"}, {"TORCHX_JOB_ID": "fake://s/app-1"}]
    keys = {place_of(**other).key() for other in others} | {place_of().key(), place_of().key("1")}
    assert len(keys) == 5
