"""A deployment says where component files may lie, and nothing else runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from component_files import Files

from torchx_core.components import find_component
from torchx_core.errors import InvalidInputError

APP = "from torchx_core.specs import AppDef\ndef app() -> AppDef: ...\n"
MINE = "raise SystemExit('this ran')\n" + APP


@pytest.fixture
def allowed(files: Files) -> Path:
    """A directory with a component and a package."""
    files.write("allowed/good.py", APP)
    files.write("allowed/goods/__init__.py", "")
    files.write("allowed/goods/jobs.py", APP)
    return files.root / "allowed"


def test_a_file_inside_is_used(allowed: Path) -> None:
    """A file in a package below counts as inside."""
    for file in ("good.py", "goods/jobs.py"):
        find_component(f"{allowed / file}:app", paths=[allowed])


@pytest.mark.parametrize(
    "name", ["outside.py", "allowed/../outside.py", "allowed2/outside.py", "allowed/link.py", "out-side.py"]
)
def test_a_file_elsewhere_does_not_run(files: Files, allowed: Path, name: str) -> None:
    """A path that leads out, a link, or a name that begins alike does not help it."""
    files.write("outside.py", MINE)
    files.write("out-side.py", MINE)
    files.write("allowed2/outside.py", MINE)
    (allowed / "link.py").symlink_to(files.root / "outside.py")
    with pytest.raises(
        InvalidInputError, match=r"out-?side.py' may not be used; expected a file below .*allowed"
    ):
        find_component(f"{files.root / name}:app", paths=[allowed])


def test_a_link_to_the_inside_is_used(files: Files, allowed: Path) -> None:
    """What counts is where the file lies; the directory itself may be a link, too."""
    (files.root / "shortcut.py").symlink_to(allowed / "good.py")
    (files.root / "alias").symlink_to(allowed)
    find_component(f"{files.root / 'shortcut.py'}:app", paths=[files.root / "alias"])


def test_a_package_that_begins_outside_does_not_run(files: Files) -> None:
    """Its ``__init__.py`` would run, too."""
    files.write("big/__init__.py", MINE)
    files.write("big/part/__init__.py", "")
    file = files.write("big/part/jobs.py", APP)
    with pytest.raises(InvalidInputError, match=r"big/__init__.py' may not be used"):
        find_component(f"{file}:app", paths=[file.parent])


@pytest.mark.parametrize("name", ["module_outside.app", "package_outside.jobs:app"])
def test_a_module_elsewhere_does_not_run(files: Files, allowed: Path, name: str) -> None:
    """The working directory is on the path of many programs: a dotted name is no way around."""
    files.write("module_outside.py", MINE)
    files.write("package_outside/__init__.py", MINE)
    files.write("package_outside/jobs.py", APP)
    sys.path.insert(0, str(files.root))
    with pytest.raises(InvalidInputError, match="may not be used"):
        find_component(name, paths=[allowed])


def test_a_module_inside_is_used(allowed: Path) -> None:
    """A dotted name is as good as a path."""
    sys.path.insert(0, str(allowed))
    assert find_component("goods.jobs.app", paths=[allowed]).source == "module goods.jobs"


def test_built_in_components_need_no_place() -> None:
    """They come with this package, as registered ones come with theirs."""
    assert find_component("utils.echo", paths=[]).source == "built-in"


def test_the_environment_says_it_for_the_deployment(
    files: Files, allowed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list like PATH; an argument replaces it; set but empty it allows nothing."""
    file = files.write("own.py", APP)
    monkeypatch.setenv("TORCHX_COMPONENT_PATHS", os.pathsep.join(["/nowhere", str(allowed)]))
    find_component(f"{allowed / 'good.py'}:app")
    with pytest.raises(InvalidInputError, match="change TORCHX_COMPONENT_PATHS"):
        find_component(f"{file}:app")
    find_component(f"{file}:app", paths=[files.root])
    monkeypatch.setenv("TORCHX_COMPONENT_PATHS", "")
    with pytest.raises(InvalidInputError, match="expected a file below no directory"):
        find_component(f"{file}:app")


def test_a_relative_place_is_refused() -> None:
    """It would mean another directory for every caller."""
    with pytest.raises(InvalidInputError, match="component path 'jobs' is relative"):
        find_component("utils.echo", paths=["jobs"])
