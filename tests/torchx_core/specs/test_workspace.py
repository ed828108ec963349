from __future__ import annotations

from pathlib import Path

import pytest

from torchx_core.errors import InvalidAppError
from torchx_core.specs import Workspace


@pytest.mark.parametrize(
    ("text", "projects"),
    [
        (None, {}),
        ("", {}),
        ("/home/me/project", {"/home/me/project": ""}),
        ("~", {"~": ""}),
        ("2024", {"2024": ""}),
        ("/a: sub", {"/a": "sub"}),
        ("/a:\n/b: sub", {"/a": "", "/b": "sub"}),
        ("'/with space'", {"/with space": ""}),
    ],
)
def test_from_str(text: str | None, projects: dict[str, str]) -> None:
    """A path is one project, a YAML map is several, nothing is none."""
    assert Workspace.from_str(text) == Workspace(projects)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[/a, /b]", "is a list"),
        ("1: x", r"is 1 \(int\) where a string belongs"),
        ("/a: 2", r"is 2 \(int\) where a string belongs"),
        ("{", "is not YAML"),
    ],
)
def test_from_str_refuses(text: str, message: str) -> None:
    """What is neither path nor map is refused with the text and the reason."""
    with pytest.raises(InvalidAppError, match=message):
        Workspace.from_str(text)


def test_truth_and_hash() -> None:
    """A workspace is true when it has projects, and equal ones are the same key."""
    assert not Workspace({})
    assert Workspace({"/a": ""})
    assert len({Workspace({"/a": "", "/b": ""}), Workspace({"/b": "", "/a": ""})}) == 1


def test_text_for_logs() -> None:
    """Logs show ``local:sub``, and just the path where there is no sub-directory."""
    assert str(Workspace({"/a": "", "/b": "sub"})) == "/a;/b:sub"


@pytest.mark.parametrize(
    ("projects", "expected"),
    [({"/a": ""}, True), ({"/a": "x"}, False), ({"/a": "", "/b": ""}, False), ({}, False)],
)
def test_is_unmapped_single_project(projects: dict[str, str], *, expected: bool) -> None:
    """True for exactly one project that is not mapped."""
    assert Workspace(projects).is_unmapped_single_project() is expected


def test_merge_into(tmp_path: Path) -> None:
    """Directories and files go to their places; later projects win."""
    first, second, out = tmp_path / "first", tmp_path / "second", tmp_path / "out"
    for folder in (first / "pkg", second):
        folder.mkdir(parents=True)
    (first / "pkg" / "a.py").write_text("first")
    (first / "only").write_text("first")
    (second / "a.py").write_text("second")
    Workspace({str(first): "", str(second): "pkg", str(second / "a.py"): "new/b.py"}).merge_into(out)
    assert {str(p.relative_to(out)): p.read_text() for p in out.rglob("*") if p.is_file()} == {
        "pkg/a.py": "second",
        "only": "first",
        "new/b.py": "second",
    }


def test_merge_into_expands_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``~`` is the home directory, which nobody else would expand."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "f").write_text("x")
    Workspace({"~/f": "copy"}).merge_into(str(tmp_path / "out"))
    assert (tmp_path / "out" / "copy").read_text() == "x"


def test_merge_into_needs_the_source(tmp_path: Path) -> None:
    """A project that does not exist is named."""
    with pytest.raises(InvalidAppError, match=r"workspace.projects\['/no/such'\]: no such file or directory"):
        Workspace({"/no/such": ""}).merge_into(tmp_path)


@pytest.mark.parametrize("sub", ["../x", "a/../../x", "/etc"])
def test_merge_into_stays_inside(tmp_path: Path, sub: str) -> None:
    """A sub-directory cannot lead out of the target."""
    (tmp_path / "src").mkdir()
    with pytest.raises(InvalidAppError, match="must stay inside the workspace"):
        Workspace({str(tmp_path / "src"): sub}).merge_into(tmp_path / "out")
