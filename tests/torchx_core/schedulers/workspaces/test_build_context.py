from __future__ import annotations

import io
import os
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchx_core.errors import InvalidAppError
from torchx_core.schedulers.workspaces import walk_directory
from torchx_core.schedulers.workspaces.build_context import archive


def unpack(pieces: Iterator[bytes]) -> dict[str, tarfile.TarInfo]:
    """Return what the archive holds, by name."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces)), errors="surrogateescape") as tar:
        return {member.name: member for member in tar}


def test_everything_is_in_it_as_it_is_here(tmp_path: Path) -> None:
    """Names of any length and bytes, links and permissions are kept; root owns it all."""
    deep = tmp_path / ("d" * 150) / ("e" * 150)
    deep.mkdir(parents=True)
    strange = os.fsdecode(b"caf\xe9 \xff\n")
    (deep / strange).write_text("text")
    (deep / "run").write_text("#!/bin/sh\n")
    (deep / "run").chmod(0o750)
    (tmp_path / "link").symlink_to("d" * 150)
    found = unpack(archive(walk_directory(str(tmp_path)), {"ours": "yes"}))
    top = f"{'d' * 150}"
    inner = f"{top}/{'e' * 150}"
    assert list(found) == ["ours", top, inner, f"{inner}/{strange}", f"{inner}/run", "link"]
    assert found[f"{inner}/run"].mode == 0o750
    assert found["link"].linkname == top
    assert {(member.uid, member.gid) for member in found.values()} == {(0, 0)}


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1 << 20])
def test_contents_of_any_size(tmp_path: Path, size: int) -> None:
    """Contents come out as they went in, whatever they leave over of a block."""
    content = os.urandom(size)
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "b").write_bytes(content[::-1])
    data = b"".join(archive(walk_directory(str(tmp_path)), {}))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        got = [file.read() for name in ("a", "b") if (file := tar.extractfile(name))]
    assert got == [content, content[::-1]]


def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    """A file of 300 MB passes through in pieces."""
    size = 300 << 20
    with (tmp_path / "checkpoint").open("wb") as file:
        file.truncate(size)
    tracemalloc.start()
    try:
        total = sum(len(piece) for piece in archive(walk_directory(str(tmp_path)), {}))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total > size
    assert peak < 4 << 20


def test_a_file_that_grows_is_cut(tmp_path: Path) -> None:
    """What is appended while a file is read does not spoil the archive."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * ((1 << 18) + 1))
    pieces = archive(walk_directory(str(tmp_path)), {})
    first = next(pieces)
    with log.open("ab") as file:
        file.write(b"more")
    data = io.BytesIO(first + b"".join(pieces))
    with tarfile.open(fileobj=data) as tar:
        assert tar.getmember("log").size == (1 << 18) + 1


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    """A file that is not what it was any more is named, and submitting again may help."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * (1 << 19))
    pieces = archive(walk_directory(str(tmp_path)), {})
    next(pieces)
    log.write_bytes(b"")
    with pytest.raises(InvalidAppError, match=r"log' became shorter while it was read; submit again"):
        list(pieces)


def test_a_file_that_goes_is_an_error(tmp_path: Path) -> None:
    """A file that was removed meanwhile is named."""
    (tmp_path / "gone").touch()
    entries = list(walk_directory(str(tmp_path)))
    (tmp_path / "gone").unlink()
    with pytest.raises(InvalidAppError, match=r"cannot read '.*gone': No such file"):
        list(archive(entries, {}))
