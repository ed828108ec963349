"""Component files are loaded as the modules that they are: once, with their siblings, hiding nobody."""

from __future__ import annotations

import json
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from component_files import Files

from torchx_core.components import Component, find_component
from torchx_core.errors import ComponentValidationException

APP = """\
from torchx_core.specs import AppDef, Role

def app(name: str) -> AppDef:
    return AppDef(name, roles=[Role(name="r", image="i", entrypoint="true")])
"""


def app_name(component: Component) -> str:
    """Build the component without arguments and return the app's name."""
    return component.build().name


def test_a_file_in_a_package_imports_its_siblings(files: Files) -> None:
    """By relative and by absolute imports, also from the package above, and when the function runs."""
    files.write("team/__init__.py", "LEVEL = 'top'\n")
    files.write("team/names.py", "NAME = 'from-above'\n")
    files.write("team/jobs/__init__.py", "")
    files.write("team/jobs/shared.py", APP)
    files.write("team/jobs/late.py", "SUFFIX = '-late'\n")
    file = files.write(
        "team/jobs/train.py",
        """
        from team import LEVEL
        from team.names import NAME
        from torchx_core.specs import AppDef
        from .shared import app

        def train() -> AppDef:
            from .late import SUFFIX
            return app(f"{LEVEL}-{NAME}{SUFFIX}")
        """,
    )
    component = find_component(f"{file}:train")
    assert app_name(component) == "top-from-above-late"
    assert component.function.__module__ == "team.jobs.train"
    assert sys.modules["team.jobs.train"].train is component.function


def test_a_file_outside_a_package_imports_its_neighbours(files: Files) -> None:
    """As `python FILE` would; the relative path is the working directory's."""
    files.write("neighbour_of_lonely.py", APP)
    file = files.write(
        "lonely.py",
        """
        import neighbour_of_lonely
        from torchx_core.specs import AppDef

        def train() -> AppDef:
            return neighbour_of_lonely.app("found")
        """,
    )
    assert app_name(find_component(f"{file}:train")) == "found"
    assert sys.path[-1] == str(file.parent)


def test_a_relative_path_and_the_home_directory_work(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """``./x.py``, ``x.py`` and ``~/x.py`` are one file."""
    home = files.write("home/at_home.py", APP).parent
    paths = ("at_home.py", "./at_home.py", "~/at_home.py")
    with monkeypatch.context() as there:
        there.chdir(home)
        there.setenv("HOME", str(home))
        found = [find_component(f"{path}:app").function for path in paths]
    assert found[0] is found[1] is found[2]


def test_a_file_is_loaded_once(files: Files) -> None:
    """Asking again gives the same function; a change on disk is the next process's, whatever it is."""
    file = files.write("once.py", APP)
    first = find_component(f"{file}:app")
    file.write_text("this is no Python any more")
    assert find_component(f"{file}:app").function is first.function


def test_threads_get_the_same_module(files: Files) -> None:
    """However many ask first at the same time."""
    file = files.write("ra-ced.py", "import threading\nthreading.Event().wait(0.3)\n" + APP)
    together = Barrier(8)

    def find(_number: int) -> object:
        together.wait()
        return find_component(f"{file}:app").function

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(find, range(8)))) == 1


@pytest.mark.parametrize("name", ["json.py", "not-an-identifier.py", "__main__.py"])
def test_a_file_hides_no_other_module(files: Files, name: str) -> None:
    """One called like a module of Python, or like none, is loaded under a name of its own."""
    file = files.write(name, APP)
    component = find_component(f"{file}:app")
    assert component.build(["--name", "x"]).name == "x"
    assert component.function.__module__.startswith("torchx_component_")
    assert sys.modules["json"] is json
    assert find_component(f"{file}:app").function is component.function
    assert pickle.loads(pickle.dumps(component.function)) is component.function


def test_two_files_of_one_name_are_two_modules(files: Files) -> None:
    """The second one gets a name of its own."""
    one, two = files.write("a/twin.py", APP), files.write("b/twin.py", APP)
    functions = [find_component(f"{file}:app").function for file in (one, two, one, two)]
    assert functions[0] is functions[2] is not functions[1]
    assert functions[1] is functions[3]
    one.unlink()
    three = files.write("c/twin.py", APP)
    assert find_component(f"{three}:app").function not in functions


def test_a_file_beside_a_package_of_its_name_is_the_one_loaded(files: Files) -> None:
    """An import would lead to the package."""
    files.write("either/__init__.py", "raise AssertionError('the package was not asked for')\n")
    file = files.write("either.py", APP)
    assert find_component(f"{file}:app").build(["--name", "x"]).name == "x"


def test_a_hidden_package_is_told(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """The file is loaded by itself when another package of that name comes first."""
    files.write("first/hidden/__init__.py", "")
    files.write("second/hidden/__init__.py", "")
    file = files.write("second/hidden/jobs.py", APP)
    sys.path.insert(0, str(files.root / "first"))
    assert find_component(f"{file}:app").build(["--name", "x"]).name == "x"
    assert "package hidden.jobs of" in caplog.text


def test_the_package_itself_may_be_the_component_file(files: Files) -> None:
    """Its ``__init__.py`` is the package, not a module called ``__init__``."""
    file = files.write("whole/__init__.py", APP)
    assert find_component(f"{file}:app").function.__module__ == "whole"


def test_a_failed_file_leaves_nothing_behind(files: Files) -> None:
    """Its module, and its directory on the path, are gone."""
    before = list(sys.path)
    for name in ("breaks.py", "bre-aks.py"):
        file = files.write(name, APP + "raise ValueError('broken')\n")
        with pytest.raises(ComponentValidationException, match="ValueError: broken"):
            find_component(f"{file}:app")
    assert sys.path == before
    assert not [
        m for m in sys.modules.values() if str(getattr(m, "__file__", "")).startswith(str(files.root))
    ]


def test_the_file_is_found_right_after_it_was_written(files: Files) -> None:
    """Python remembers what a directory held at its time stamp; several files may have come at one time."""
    for name in ("first_of_two", "second_of_two"):
        file = files.write(f"{name}.py", APP)
        os.utime(files.root, ns=(1, 1))
        assert find_component(f"{file}:app").function.__module__ == name


def test_a_linked_file_has_the_siblings_of_the_link(files: Files, tmp_path: Path) -> None:
    """Build tools lay packages out as links to files that lie elsewhere."""
    real = files.write("store/abc123.py", "from .shared import app\n")
    real.write_text(
        "from torchx_core.specs import AppDef\nfrom .shared import app\n"
        "def train() -> AppDef:\n    return app('linked')\n"
    )
    files.write("farm/linked/__init__.py", "")
    files.write("farm/linked/shared.py", APP)
    link = tmp_path / "farm/linked/train.py"
    link.symlink_to(real)
    assert app_name(find_component(f"{link}:train")) == "linked"


def test_a_package_that_finds_its_modules_elsewhere_does_not_hide_the_file(files: Files) -> None:
    """The file that was named is loaded, by itself if need be."""
    files.write("elsewhere_pkg/__init__.py", "__path__ = []\n")
    file = files.write("elsewhere_pkg/jobs.py", APP)
    assert find_component(f"{file}:app").function.__module__.startswith("torchx_component_")
