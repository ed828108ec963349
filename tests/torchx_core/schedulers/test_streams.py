from __future__ import annotations

import io
from pathlib import Path

import pytest

from torchx_core.schedulers.streams import Tee
from torchx_core.testing import wait_until


def test_what_is_written_to_the_sources_is_copied(tmp_path: Path) -> None:
    """While they grow, to their ends when it is closed, and what is written directly between."""
    sources = [tmp_path / "out", tmp_path / "err"]
    for source in sources:
        source.write_bytes(b"")
    tee = Tee(io.FileIO(tmp_path / "both", "wb"), *map(str, sources))
    with sources[0].open("ab", buffering=0) as out:
        out.write(b"first\n")
        wait_until(lambda: (tmp_path / "both").read_bytes() == b"first\n")
        tee.write(b"second\n")
        out.write(b"third")
    sources[1].write_bytes(b"fourth")
    tee.close()
    tee.close()
    assert (tmp_path / "both").read_bytes() == b"first\nsecond\nthirdfourth"


def test_it_copies_something(tmp_path: Path) -> None:
    """No source, or one that is not there, is an error, and no thread is left."""
    with (tmp_path / "both").open("wb", buffering=0) as out:
        with pytest.raises(ValueError, match="name a source"):
            Tee(out)
        with pytest.raises(FileNotFoundError):
            Tee(out, str(tmp_path / "nothing"))
