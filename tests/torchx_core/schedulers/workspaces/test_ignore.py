from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchx_core.schedulers.workspaces import walk
from torchx_core.specs import Workspace

PATHS = ["a.py", "b.txt", "build/x.o", "data/big.bin", "data/keep.txt", "src/a.py", "src/data/b.txt"]


def tree(directory: Path, *paths: str) -> Path:
    """Make the files."""
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text("")
    return directory


def files(directory: Path, ignore: str, ignore_file: str = ".torchxignore") -> list[str]:
    """Return the files that are left, without the ignore file itself."""
    (directory / ignore_file).write_text(ignore)
    found = walk(Workspace({str(directory): ""}), ignore_file)
    return [path for path, source in found if Path(source).is_file() and path != ignore_file]


@pytest.mark.parametrize(
    ("ignore", "left_out"),
    [
        ("", []),
        ("# all\n\n.\n  \n", []),
        ("*.txt", ["b.txt", "data/keep.txt", "src/data/b.txt"]),
        ("data", ["data/big.bin", "data/keep.txt"]),
        ("data/", ["data/big.bin", "data/keep.txt"]),
        ("/data", ["data/big.bin", "data/keep.txt"]),
        ("./data/ # big", ["data/big.bin", "data/keep.txt"]),
        ("**/data", ["data/big.bin", "data/keep.txt", "src/data/b.txt"]),
        ("data/*\n!data/keep.txt", ["data/big.bin"]),
        ("!data/keep.txt\ndata/*", ["data/big.bin", "data/keep.txt"]),
        ("*\n!src", ["a.py", "b.txt", "build/x.o", "data/big.bin", "data/keep.txt"]),
        ("*\n!src\n*.py", ["a.py", "b.txt", "build/x.o", "data/big.bin", "data/keep.txt", "src/a.py"]),
        ("data\n!data/keep.txt", ["data/big.bin", "data/keep.txt"]),
    ],
)
def test_what_is_left_out(tmp_path: Path, ignore: str, left_out: list[str]) -> None:
    """The last pattern that fits decides; what is brought back comes whole, but for later patterns."""
    tree(tmp_path, *PATHS)
    assert files(tmp_path, ignore) == [path for path in PATHS if path not in left_out]


def test_what_changes_by_itself_is_left_out(tmp_path: Path) -> None:
    """Looking at the repository would make another image otherwise; an explicit line brings it back."""
    tree(tmp_path, "a.py", ".git/index", "sub/.git/index", "sub/__pycache__/a.pyc")
    assert files(tmp_path, "") == ["a.py"]
    assert files(tmp_path, "!.git") == [".git/index", "a.py"]


def test_the_recipe_is_always_in(tmp_path: Path) -> None:
    """An ignore file cannot leave out what tells how to build."""
    tree(tmp_path, "a.py", "Dockerfile.torchx")
    assert files(tmp_path, "*") == ["Dockerfile.torchx"]


def test_the_name_of_the_ignore_file(tmp_path: Path) -> None:
    """The caller chooses it; another file of that kind is just a file."""
    tree(tmp_path, "a.py")
    (tmp_path / ".torchxignore").write_text("*")
    assert files(tmp_path, "a.py", ".dockerignore") == [".torchxignore"]


def test_each_project_has_its_own(tmp_path: Path) -> None:
    """It speaks of paths in its project, wherever that goes."""
    one, two = tree(tmp_path / "one", "a", "b"), tree(tmp_path / "two", "a", "b")
    (one / ".torchxignore").write_text("a\n.torchxignore")
    found = walk(Workspace({str(one): "x", str(two): "y"}))
    assert [path for path, _ in found] == ["x", "x/b", "y", "y/a", "y/b"]


names = st.sampled_from(["a", "b", "c.py"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
patterns = st.builds(
    "{}{}".format,
    st.sampled_from(["", "!"]),
    st.sampled_from(["a", "b", "*", "*.py", "a/*", "b/a", "*/b", "a/b/*", "[ab]", "?/c.py"]),
)


def torchx_files(directory: str) -> list[str]:
    """Return what TorchX's own walk leaves."""
    file_system = import_module("fsspec").filesystem("file")
    found: list[str] = []
    for folder, _, inside in import_module("torchx.workspace").walk_workspace(file_system, directory):
        found += [str((Path(folder) / name).relative_to(directory)) for name in inside]
    return sorted(found)


@settings(max_examples=150, deadline=None)
@given(st.sets(paths, min_size=1, max_size=8), st.lists(patterns, max_size=4))
def test_torchx_leaves_the_same(chosen: set[str], lines: list[str]) -> None:
    """For every tree and every list of patterns that both read alike."""
    with tempfile.TemporaryDirectory() as directory:
        folders = {path.rpartition("/")[0] for path in chosen}
        above = {folder[:n] for folder in folders for n in range(len(folder) + 1)}
        tree(Path(directory), *(chosen - above))
        (Path(directory) / ".torchxignore").write_text("\n".join(lines))
        entries = walk(Workspace({directory: ""}))
        assert sorted(p for p, source in entries if Path(source).is_file()) == torchx_files(directory)
