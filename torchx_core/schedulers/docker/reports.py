"""What replicas reported: JSON lines in a file per attempt, read from an archive of all of them."""

from __future__ import annotations

import io
import tarfile

__all__ = ["read_archive"]


def read_archive(archive: bytes) -> dict[tuple[int, int], list[bytes]]:
    """Return the lines of every file, by index of the replica and number of the attempt."""
    files: dict[tuple[int, int], list[bytes]] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            index, _, attempt = member.name.rpartition("/")[2].partition(".")
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None and index.isdecimal() and attempt.isdecimal():
                files[int(index), int(attempt)] = file.read().split(b"\n")
    return files
