from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchx_core.errors import InvalidAppError
from torchx_core.schedulers.workspaces import Entry, merged, walk, walk_directory
from torchx_core.specs import Workspace


def tree(directory: Path, *paths: str) -> Path:
    """Make empty files, and directories for paths that end in a slash."""
    directory.mkdir(exist_ok=True)
    for path in paths:
        place = directory / path
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(path)
    return directory


def test_directories_come_before_what_is_in_them(tmp_path: Path) -> None:
    """All entries in the order of their paths, empty directories too, each with its source."""
    project = tree(tmp_path / "p", "b.py", "a/x.py", "a-b", "a/empty/", "é")
    found = list(walk(Workspace({str(project): ""})))
    assert [path for path, _ in found] == ["a", "a-b", "a/empty", "a/x.py", "b.py", "é"]
    assert all(source == str(project / path) for path, source in found)


def test_projects_go_to_their_places(tmp_path: Path) -> None:
    """Below sub-directories, which are entries themselves; a file goes under its name, or the one given."""
    one, two = tree(tmp_path / "one", "a.py"), tree(tmp_path / "two", "b.py", "c.py")
    projects = {str(one): "", str(two): "lib/two", str(two / "b.py"): "new/", str(two / "c.py"): "new/d.py"}
    assert [path for path, _ in walk(Workspace(projects))] == [
        "a.py",
        "lib",
        "lib/two",
        "lib/two/b.py",
        "lib/two/c.py",
        "new",
        "new/b.py",
        "new/d.py",
    ]


def test_a_file_goes_into_a_directory_of_that_name(tmp_path: Path) -> None:
    """As a copy does: it does not take the directory's place."""
    one, two = tree(tmp_path / "one", "pkg/a.py"), tree(tmp_path / "two", "b.py")
    found = walk(Workspace({str(one): "", str(two / "b.py"): "pkg"}))
    assert [path for path, _ in found] == ["pkg", "pkg/a.py", "pkg/b.py"]


def test_the_later_project_wins(tmp_path: Path) -> None:
    """Where two have a file of the same path."""
    one, two = tree(tmp_path / "one", "a", "b"), tree(tmp_path / "two", "b", "c")
    assert list(walk(Workspace({str(one): "", str(two): ""}))) == [
        ("a", str(one / "a")),
        ("b", str(two / "b")),
        ("c", str(two / "c")),
    ]


def test_layers_replace_each_other(tmp_path: Path) -> None:
    """A file takes the place of a directory and all in it, a directory that of a file; directories merge."""
    one = tree(tmp_path / "one", "d/x", "d/y/z", "f", "both/1")
    two = tree(tmp_path / "two", "d", "f/g", "both/2")
    layers = merged(walk_directory(str(one)), walk_directory(str(two)))
    assert [path for path, _ in layers] == ["both", "both/1", "both/2", "d", "f", "f/g"]
    assert dict(layers)["d"] == str(two / "d")


def test_links(tmp_path: Path) -> None:
    """They stay links, dangling ones too; one that leads to a file that the image would not have is that."""
    outside = tree(tmp_path / "outside", "file", "folder/")
    project = tree(tmp_path / "p", "a", "folder/b")
    links = {
        "inside": "folder/b",
        "to-folder": "folder",
        "dangling": "nowhere",
        "out": "../outside/file",
        "absolute": str(project / "a"),
        "out-folder": str(outside / "folder"),
        "loop": "loop",
    }
    for name, target in links.items():
        (project / name).symlink_to(target)
    found: dict[str, str] = dict(walk(Workspace({str(project): ""})))
    assert found.pop("out") == str(outside / "file")
    assert found.pop("absolute") == str(project / "a")
    kept = [path for path, source in found.items() if Path(source).is_symlink()]
    assert kept == ["dangling", "inside", "loop", "out-folder", "to-folder"]


def test_a_project_may_be_a_link(tmp_path: Path) -> None:
    """It is what it leads to, under the name that was given."""
    real = tree(tmp_path / "real", "a")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "f.py").symlink_to("real/a")
    assert list(walk(Workspace({str(tmp_path / "link"): "x", str(tmp_path / "f.py"): ""}))) == [
        ("f.py", str(real / "a")),
        ("x", str(real)),
        ("x/a", str(real / "a")),
    ]


def test_the_callers_own_directory_is_not_looked_into(tmp_path: Path) -> None:
    """It is no entry either, wherever it lies."""
    project = tree(tmp_path / "p", "a", "own/x", "deep/own/y")
    assert [path for path, _ in walk(Workspace({str(project): ""}), own=str(project / "own"))] == [
        "a",
        "deep",
        "deep/own",
        "deep/own/y",
    ]
    assert dict(walk_directory(str(project), own=str(project / "deep"))).keys() == {"a", "own", "own/x"}


def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    """A named pipe would block whoever reads it."""
    project = tree(tmp_path / "p", "a")
    os.mkfifo(project / "pipe")
    assert [path for path, _ in walk(Workspace({str(project): ""}))] == ["a"]


def test_local_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative ones, ``~`` and ``file://`` are understood, as in TorchX."""
    tree(tmp_path, "p/a", "here/")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    expected: list[Entry] = [("a", str(tmp_path / "p" / "a"))]
    for local in ("../p", ".././p/", "~/p", f"file://{tmp_path}/p", "file://../p"):
        assert list(walk(Workspace({local: ""}))) == expected, local


@pytest.mark.parametrize(
    ("local", "sub", "message"),
    [
        ("/no/such", "", r"projects\['/no/such'\]: no such file or directory: '/no/such'"),
        ("memory://x", "", r"must be a path of this host, not memory://"),
        ("/", "../x", "must stay inside the workspace"),
        ("/", "/x", "must stay inside the workspace"),
    ],
)
def test_what_is_refused(local: str, sub: str, message: str) -> None:
    """With the project and the reason."""
    with pytest.raises(InvalidAppError, match=message):
        list(walk(Workspace({local: sub})))
