from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.errors import InvalidAppError
from torchx_core.schedulers.workspaces import digest, walk_directory


def digest_of(directory: Path) -> str:
    """Return the digest of all that is in the directory."""
    return digest(walk_directory(str(directory)))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a file, a program, a link and an empty directory."""
    directory = tmp_path / "p"
    (directory / "sub" / "empty").mkdir(parents=True)
    (directory / "a.py").write_text("a")
    (directory / "run.sh").write_text("#!/bin/sh\n")
    (directory / "run.sh").chmod(0o755)
    (directory / "link").symlink_to("a.py")
    return directory


def test_place_and_time_do_not_count(project: Path, tmp_path: Path) -> None:
    """A copy elsewhere, touched, is the same content."""
    before = digest_of(project)
    shutil.copytree(project, tmp_path / "copy", symlinks=True)
    os.utime(tmp_path / "copy" / "a.py", (1, 1))
    assert digest_of(tmp_path / "copy") == before
    assert len(before) == 64


@pytest.mark.parametrize(
    "change",
    [
        "printf b > a.py",
        "mv a.py b.py",
        "chmod 700 a.py",
        "chmod 700 sub",
        "rmdir sub/empty",
        "touch new",
        "ln -sf run.sh link",
        "rm link && printf a.py > link",
        "rmdir sub/empty && touch sub/empty",
    ],
)
def test_every_change_counts(project: Path, change: str) -> None:
    """Of content, name, permissions, kind or target."""
    before = digest_of(project)
    subprocess.run(["sh", "-c", change], cwd=project, check=True)
    assert digest_of(project) != before


def test_what_else_it_follows_from_counts() -> None:
    """Such as the image beneath, or an option of the build."""
    assert len({digest([]), digest([], ""), digest([], "a"), digest([], "a", "b"), digest([], "ab")}) == 5


def test_any_file_name(tmp_path: Path) -> None:
    """One that is no text is as good as another."""
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff\n", os.O_CREAT))
    assert len(digest_of(tmp_path)) == 64


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With the reason, as an error of the app."""
    with pytest.raises(InvalidAppError, match=r"workspace: cannot read '.*gone': No such file"):
        digest([("gone", str(tmp_path / "gone"))])


texts = st.lists(st.text(st.characters(codec="utf-8")))


@given(texts, texts)
def test_no_two_lists_of_texts_look_the_same(one: list[str], two: list[str]) -> None:
    """Wherever their borders lie."""
    assert (digest([], *one) == digest([], *two)) == (one == two)
