"""Schedulers are found by name: the built-in ones and those of installed distributions."""

from __future__ import annotations

import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from torchx_core import get_runner
from torchx_core.errors import BackendAbsentError, SchedulerError, UnknownSchedulerException
from torchx_core.registry import find_factory, make_scheduler, scheduler_factories

PLUGIN = """
from torchx_core.testing import FakeHost

HOST = FakeHost(backend="plugged")

class Home:
    scheduler = HOST.scheduler
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *entries: str) -> None:
    """Put a distribution with these entry points, and their module, on ``sys.path``."""
    info = folder / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[torchx_core.schedulers]", *entries]) + "\n")
    (folder / "txc_plugin.py").write_text(PLUGIN)
    (folder / "txc_broken.py").write_text("raise ImportError('libfoo.so is missing')\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    invalidate_caches()


def test_the_built_in_schedulers_are_there() -> None:
    """The first is the default."""
    assert list(scheduler_factories())[:2] == ["local_cwd", "local_dir"]


def test_an_installed_scheduler_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of its entry point; a runner uses it like any other."""
    install(tmp_path, monkeypatch, "plugged = txc_plugin:HOST.scheduler")
    with get_runner("mine") as runner:
        assert runner.scheduler_backends()[-1] == "plugged"
        assert runner.list("plugged") == []


def test_a_plugin_that_lacks_a_package_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a built-in scheduler's extra may be left out on purpose: `list` names the plugin."""
    install(tmp_path, monkeypatch, "lost = txc_no_such_module:create")
    with get_runner("mine") as runner, pytest.raises(SchedulerError, match=r"'lost'.*No module") as caught:
        runner.list("lost")
    assert not isinstance(caught.value, BackendAbsentError)


def test_a_broken_scheduler_harms_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed, and only whoever uses it learns what is wrong and where."""
    install(tmp_path, monkeypatch, "broken = txc_broken:create", "gone = txc_plugin:no_such_thing")
    with get_runner("mine", state_dir=str(tmp_path)) as runner:
        assert runner.list("local_cwd") == []
        assert {"broken", "gone"} <= set(runner.scheduler_backends())
        with pytest.raises(SchedulerError, match=r"'broken'.*txc_broken:create.*libfoo.so is missing"):
            runner.list("broken")
        with pytest.raises(SchedulerError, match=r"'gone'.*no_such_thing"):
            runner.list("gone")


def test_an_entry_point_cannot_take_a_built_in_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No installed package changes what local_cwd means."""
    install(tmp_path, monkeypatch, "local_cwd = txc_plugin:Home.scheduler")
    factories = scheduler_factories()
    assert next(iter(factories)) == "local_cwd"
    assert make_scheduler(factories, "local_cwd", "mine", {}).backend == "local_cwd"


def test_looking_for_schedulers_loads_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A factory imports its module when it is called, not before."""
    install(tmp_path, monkeypatch, "bomb = txc_bomb:create")
    (tmp_path / "txc_bomb.py").write_text("raise AssertionError('imported')\n")
    assert "bomb" in scheduler_factories()


def test_an_unknown_name_is_refused_with_the_closest_one() -> None:
    """The error lists all known names."""
    with pytest.raises(UnknownSchedulerException, match=r"local_cwd, local_dir.*did you mean 'local_cwd'"):
        find_factory(scheduler_factories(), "local_cdw")
