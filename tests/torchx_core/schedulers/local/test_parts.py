"""Names, cursors, differences, pruning: the small parts of the local schedulers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from local_apps import app_of

from torchx_core import Runner
from torchx_core.errors import InvalidCursorError, InvalidInputError, SchedulerError
from torchx_core.schedulers import removing
from torchx_core.schedulers.difference import differences
from torchx_core.schedulers.local.feed import decode_cursor, encode_cursor
from torchx_core.schedulers.local.host_check import check_file_system
from torchx_core.schedulers.paths import file_name, name_of
from torchx_core.supervisor import timeline


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
@example("")
@example("%")
def test_any_name_becomes_one_harmless_file_name(name: str) -> None:
    """A file name is never hidden, never a path, and gives the name back."""
    file = file_name(name)
    assert file
    assert "/" not in file
    assert not file.startswith(".")
    assert name_of(file) == name


def test_a_name_that_no_file_can_have() -> None:
    """Too long a name is refused."""
    with pytest.raises(InvalidInputError, match="at most 200 characters"):
        file_name("x" * 201)


@given(st.integers(0, 10**9))
def test_cursors_survive(number: int) -> None:
    """A cursor gives its place back, to its own app only."""
    cursor = encode_cursor("me", number * timeline.SIZE)
    assert decode_cursor(cursor, "me") == number * timeline.SIZE
    with pytest.raises(InvalidCursorError, match="another app"):
        decode_cursor(cursor, "you")


@pytest.mark.parametrize(
    ("cursor", "problem"),
    [
        ("", "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"v":2}', "version"),
        ('{"v":1,"app":"me","at":7}', "it points nowhere"),
        ('{"v":1,"app":"me","at":"x"}', "it points nowhere"),
    ],
)
def test_bad_cursors(cursor: str, problem: str) -> None:
    """What is no cursor is refused with the reason."""
    with pytest.raises(InvalidCursorError, match=problem):
        decode_cursor(cursor, "me")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_differences_are_empty_exactly_for_equal_values(a: object, b: object) -> None:
    """Nothing is said of equal values, something of others."""
    assert differences(a, a) == []
    assert bool(differences(a, b)) == (a != b)


def test_many_differences_are_counted() -> None:
    """Only the first few are shown."""
    shown = differences(list(range(30)), list(range(30, 60)))
    assert len(shown) == 11
    assert shown[-1] == "and 20 more"


def test_prune_removes_the_oldest_and_leaves_what_runs(runner: Runner, state_dir: Path) -> None:
    """Terminal apps go, with their files; a running one stays."""
    for name in ("a", "b"):
        runner.wait(runner.run(app_of("echo", name), "local_cwd", app_id=name))
    runner.run(app_of("sleep", "600"), "local_cwd", app_id="runs")
    assert runner.prune("local_cwd", max_count=2) == ["a"]
    assert runner.prune("local_cwd", max_bytes=0) == ["b"]
    assert runner.prune("local_cwd", max_age_s=0) == []
    left = {p.name for p in (state_dir / "local_cwd" / "s").iterdir()}
    assert left == {"runs", ".lock", ".retention.json"}


def test_prune_removes_what_killed_submits_left(
    runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden directories of dead submits go once they are old; a fresh one may be a submit at work."""
    session = state_dir / "local_cwd" / "s"
    (session / ".new-123").mkdir(parents=True)
    runner.prune("local_cwd")
    assert (session / ".new-123").exists()
    monkeypatch.setattr(removing, "_DEBRIS_AGE_S", -1)
    runner.prune("local_cwd")
    assert not (session / ".new-123").exists()


def test_a_network_file_system_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state directory on NFS is an error that says what to do; one below a local mount is not."""
    mounts = [("/", "ext4", ["rw"]), ("/home", "nfs4", ["rw"]), ("/home/me/scratch", "xfs", ["rw"])]
    monkeypatch.setattr("torchx_core.schedulers.local.host_check.mounts", lambda: mounts)
    with pytest.raises(SchedulerError, match=r"network file system \(nfs4\)"):
        check_file_system("/home/me/state")
    check_file_system("/home/me/scratch/state")
    check_file_system("/homework")
