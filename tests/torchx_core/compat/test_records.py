"""Records keep the first fact told, whoever tells it, in memory and on disk alike."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from damage import DAMAGES, apply
from forks import forking
from unreachable import unreachable

from torchx_core.compat.disk import DiskStore
from torchx_core.compat.memory import MemoryStore
from torchx_core.compat.records import Store
from torchx_core.errors import (
    CorruptRecordError,
    NewerRecordError,
    RecordUnavailableError,
    StoredStateError,
    SubmitFailedError,
)
from torchx_core.testing import wait_until

FIRST = {"incarnation": "a", "created_at": 1.0}


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return an empty store of each kind."""
    return MemoryStore() if request.param == "memory" else DiskStore(str(tmp_path), "torchx:x", "a 'session'")


def test_the_first_fact_stays(store: Store) -> None:
    """Whoever is second learns what the first one told; also of the app itself."""
    record = store.create("app", FIRST)
    assert store.create("app", {"incarnation": "b"}).asked == FIRST
    assert record.put("cancel", {"reason": "first"}) == {"reason": "first"}
    assert record.put("cancel", {"reason": "second"}) == {"reason": "first"}
    assert record.get("cancel") == {"reason": "first"}
    assert record.get("final") is None


def test_one_of_many_is_first(store: Store) -> None:
    """Sixteen at once agree on one."""

    def tell(number: int) -> str:
        record = store.create("app", {"incarnation": str(number)})
        return f"{record.asked} {record.put('final', {'by': number})}"

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(tell, range(16)))) == 1


def test_records_are_listed_oldest_first(store: Store) -> None:
    """Whatever their names are."""
    for at, app_id in enumerate(["z", "a/../b", "ünï", ".hidden"]):
        store.create(app_id, {"created_at": float(at)})
    assert [record.app_id for record in store.all()] == ["z", "a/../b", "ünï", ".hidden"]


def test_a_removed_record_frees_its_id(store: Store) -> None:
    """A new one of the same id is another; removing what is gone is no error."""
    old = store.create("app", FIRST)
    store.remove(old)
    store.remove(old)
    assert store.find("app") is None
    assert store.create("app", {"incarnation": "new"}).asked == {"incarnation": "new"}


def test_a_lock_tells_whether_its_record_is_still_there(store: Store) -> None:
    """Who waited for it, or comes later, finds that the app was forgotten."""
    record = store.create("app", FIRST)
    found: list[bool] = []

    def wait() -> None:
        with record.locked("submit") as is_there:
            found.append(is_there)

    with record.locked("submit") as is_there:
        assert is_there
        assert record.is_locked("submit")
        assert not record.is_locked("owner")
        thread = threading.Thread(target=wait)
        thread.start()
        store.remove(record)
    thread.join()
    wait()
    assert found == [False, False]
    wait_until(lambda: not record.is_locked("submit"), 240)


def test_a_fact_may_be_replaced(store: Store) -> None:
    """The owner is, under its lock."""
    record = store.create("app", FIRST)
    record.replace("owner", {"token": "a"})
    record.replace("owner", {"token": "b"})
    assert record.get("owner") == {"token": "b"}


def test_facts_on_disk_outlive_their_process(tmp_path: Path) -> None:
    """Another store of the same place has them; another session does not."""
    DiskStore(str(tmp_path), "torchx:x", "s").create("app", FIRST).put("submitted", {"native_id": "17"})
    record = DiskStore(str(tmp_path), "torchx:x", "s").find("app")
    assert record is not None
    assert record.get("submitted") == {"native_id": "17"}
    assert DiskStore(str(tmp_path), "torchx:x", "t").all() == []


def test_only_its_user_may_look_into_it(tmp_path: Path) -> None:
    """An app's environment is in there."""
    DiskStore(str(tmp_path), "torchx:x", "s").create("app", FIRST)
    assert (tmp_path / "torchx:x" / "s" / "app").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{", CorruptRecordError),
        ("[]", CorruptRecordError),
        ("{}", CorruptRecordError),
        ('{"version": 2}', NewerRecordError),
    ],
)
def test_a_fact_that_cannot_be_read_is_named(tmp_path: Path, content: str, error: type[Exception]) -> None:
    """With its file."""
    store = DiskStore(str(tmp_path), "torchx:x", "s")
    record = store.create("app", FIRST)
    (tmp_path / "torchx:x" / "s" / "app" / "final.json").write_text(content)
    with pytest.raises(error, match=r"app/final\.json"):
        record.get("final")


def test_a_directory_without_its_first_fact_is_replaced(tmp_path: Path) -> None:
    """What is left of an app whose record was deleted by hand does not keep its id from being used."""
    store = DiskStore(str(tmp_path), "torchx:x", "s")
    debris = tmp_path / "torchx:x" / "s" / "one"
    debris.mkdir(parents=True)
    (debris / "submitted.json").write_text("{}")
    left = store.find("one")
    assert left
    with pytest.raises(CorruptRecordError, match=r"asked\.json: is missing.*delete --force torchx:x://s/one"):
        left.get("asked")
    record = store.create("one", {"name": "new"})
    assert record.asked == {"name": "new"}
    with record.locked("submit") as is_there:
        assert is_there


def test_something_else_in_the_place_of_a_record_fails_the_submit(tmp_path: Path) -> None:
    """It is named, and what was begun is taken back."""
    place = tmp_path / "torchx:x" / "s" / "one"
    place.parent.mkdir(parents=True)
    place.write_text("mine")
    with pytest.raises(SubmitFailedError, match=r"cannot create app 'one'.*Not a directory"):
        DiskStore(str(tmp_path), "torchx:x", "s").create("one", FIRST)
    assert [path.read_text() for path in place.parent.iterdir()] == ["mine"]


def test_what_was_told_is_not_written_again(tmp_path: Path) -> None:
    """Whoever looks at an app tells what he sees; only the first one waits for the disk."""
    record = DiskStore(str(tmp_path), "torchx:x", "s").create("one", FIRST)
    record.put("running", {"at": 1.0})
    before = (tmp_path / "torchx:x" / "s" / "one").stat()
    assert record.put("running", {"at": 2.0}) == {"at": 1.0}
    assert (tmp_path / "torchx:x" / "s" / "one").stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("damage", ["directory", "FIFO", "link in a circle"])
def test_a_damaged_lock_of_the_session_is_a_named_error(tmp_path: Path, damage: str) -> None:
    """A submit that has to clear debris away says what lies in the place of the lock for that."""
    store = DiskStore(str(tmp_path), "torchx:x", "s")
    (tmp_path / "torchx:x" / "s" / "one").mkdir(parents=True)
    apply(tmp_path / "torchx:x" / "s" / ".lock", damage)
    with pytest.raises(CorruptRecordError, match=r"s/\.lock"):
        store.create("one", {"name": "new"})


def test_what_is_forked_meanwhile_keeps_no_lock_of_an_app(tmp_path: Path) -> None:
    """What another thread of the submitter forks does not make the app one that is being submitted."""
    record = DiskStore(str(tmp_path), "torchx:x", "s").create("one", FIRST)
    with forking() as fork:
        with record.locked("submit"):
            fork()
        assert not record.is_locked("submit")


@pytest.mark.parametrize("name", ["", "asked.json"])
def test_a_fact_that_is_away_is_not_damaged(tmp_path: Path, name: str) -> None:
    """An app whose files cannot be read just now is neither unknown nor damaged; others are listed."""
    store = DiskStore(str(tmp_path), "torchx:x", "s")
    for app_id in ("good", "bad"):
        store.create(app_id, FIRST)
    with unreachable(tmp_path / "torchx:x" / "s" / "bad" / name, errno.EIO):
        assert [record.app_id for record in store.all()] == ["bad", "good"]
        left = store.find("bad")
        assert left
        with pytest.raises(RecordUnavailableError, match="Input/output"):
            left.get("asked")
    assert store.create("bad", {"name": "other"}).asked == FIRST


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_fact_is_a_named_error(tmp_path: Path, damage: str) -> None:
    """Whatever happens to the file of a fact, reading it ends at once, and with our own error if at all."""
    record = DiskStore(str(tmp_path), "torchx:x", "s").create("one", {"name": "new"})
    record.put("final", {"state": "SUCCEEDED"})
    apply(tmp_path / "torchx:x" / "s" / "one" / "final.json", damage)
    with suppress(StoredStateError):
        record.get("final")
