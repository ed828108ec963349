"""What was written on the app's volume, read back; programs may have written there too."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.schedulers.docker.volume_state import (
    Attempt,
    Over,
    VolumeState,
    last_result,
    read_volume_state,
)


def tar(files: dict[str, bytes], *, times: dict[str, int] | None = None) -> bytes:
    """An archive as the engine makes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"state/{name}")
            member.size, member.mtime = len(data), (times or {}).get(name, 0)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def test_journals_tell_every_attempt() -> None:
    """With exact times where the image's `date` has them, whole seconds where not, and what it has used.

    The script of the release before wrote nothing of the latter.
    """
    journal = (
        b"start 0 100.5\nend 0 3 0 101.25 67108865 1500000000\nstart 1 102.%N\nend 1 143 1 103.N - -\n"
        b"start 2 104\nend 2 0 0 105\nstart 3 106\n"
    )
    assert read_volume_state(tar({"journal.7": journal})).attempts == {
        7: (
            Attempt(number=0, started_at=100.5, ended_at=101.25, code=3, peak_mb=65, cpu_s=1.5),
            Attempt(number=1, started_at=102.0, ended_at=103.0, code=143, told=True),
            Attempt(number=2, started_at=104.0, ended_at=105.0, code=0),
            Attempt(number=3, started_at=106.0),
        )
    }


@pytest.mark.parametrize(
    ("text", "over"),
    [
        (b"failed 3 7\n", Over(why="failed", index=3)),
        (b"lease\n", Over(why="lease")),
        (b"deadline\n", Over(why="deadline")),
        (b"", None),
        (b"failed\n", None),
        (b"failed x\n", None),
        (b"\xff\n", None),
    ],
)
def test_why_it_is_over(text: bytes, over: Over | None) -> None:
    """What cannot be read says nothing."""
    assert read_volume_state(tar({"over": text})).over == over


def test_torchrun_s_own_error_counts_where_no_rank_has_left_one() -> None:
    """`dist.torchrun` has it written beside: that of a rank is the cause, in whatever order they come."""
    own = {"agent.error.0.0": b'{"message": "agent"}', "agent.error.1.0": b'{"message": "agent"}'}
    ranks = {"error.0.0": b'{"message": "rank"}', "error.1.0": b"torn"}
    expected = {(0, 0): '{"message": "rank"}', (1, 0): '{"message": "agent"}'}
    assert read_volume_state(tar({**own, **ranks})).errors == expected
    assert read_volume_state(tar({**ranks, **own})).errors == expected


def test_error_files_are_kept_if_they_are_json() -> None:
    """An error file is kept no longer than a status can carry."""
    files = {
        "error.0.0": b'{"message": "x"}',
        "error.0.1": b"not json",
        "error.1.0": b'"' + b"x" * (1 << 18) + b'"',
    }
    assert read_volume_state(tar(files)).errors == {(0, 0): '{"message": "x"}'}


@given(
    st.dictionaries(st.sampled_from(["journal.0", "journal.x", "journal", "over", "error.0.0"]), st.binary())
)
def test_nothing_that_is_written_there_does_harm(files: dict[str, bytes]) -> None:
    """Whatever the bytes are, there is an answer."""
    assert isinstance(read_volume_state(tar(files)), VolumeState)


def test_the_last_result_counts() -> None:
    """Of the file written last; lines that are no report are passed over."""
    first = b'{"type": "result", "value": 1}\n{"type": "result", "value": 2}\nnonsense\n{"type": "metric"}\n'
    files = {"0.0": b'{"type": "result", "value": "old"}\n', "1.0": first, "2.0": b'{"type": "resu'}
    assert last_result(tar(files, times={"0.0": 5, "1.0": 9, "2.0": 10})) == 2
    assert last_result(tar({})) is None
    assert last_result(tar({"error.0.0": b'{"type": "result", "value": 1}'})) is None
