"""Which component a name stands for, and what is known where."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from component_files import Files

from torchx_core.components import Component, find_component, list_components
from torchx_core.errors import ComponentNotFoundException, ComponentValidationException

BUILT_IN = [
    *("dist.accelerate", "dist.ddp", "dist.spmd", "dist.torchrun"),
    *("utils.binary", "utils.booth", "utils.copy", "utils.echo", "utils.python", "utils.sh", "utils.touch"),
]


def component_file(marker: str, *names: str) -> str:
    """Return a file with functions of these names, whose app has the marker as its name."""
    head = "from torchx_core.specs import AppDef, Role\n"
    return head + "".join(
        f"def {name}() -> AppDef:\n"
        f'    """Make {marker}."""\n'
        f'    return AppDef("{marker}", roles=[Role(name="r", image="i", entrypoint="true")])\n'
        for name in names
    )


def install(files: Files, entry_points: str, name: str = "demo") -> Path:
    """Put a distribution with these entry points on the path, as an installer does."""
    site = files.root / "site"
    files.write(f"site/{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    files.write(f"site/{name}-1.0.dist-info/entry_points.txt", entry_points)
    sys.path.insert(0, str(site))
    return site


def made(name: str) -> str:
    """Return the name of the app that the component of that name makes."""
    return find_component(name).build().name


def test_a_registered_module_lends_its_components(files: Files) -> None:
    """Under the name of the entry point, with those of a package's modules; an underscore lends no name."""
    install(files, "[torchx.components]\nteam = team_jobs\n_0 = more_jobs\n")
    files.write("site/team_jobs/__init__.py", component_file("top", "top"))
    files.write("site/team_jobs/vision/__init__.py", "")
    files.write("site/team_jobs/vision/train.py", component_file("deep", "start", "_private"))
    files.write("site/more_jobs.py", component_file("bare", "bare"))
    assert [made(name) for name in ("team.top", "team.vision.train.start", "bare")] == ["top", "deep", "bare"]
    registered = [c for c in list_components() if c.source != "built-in"]
    assert [(c.name, c.summary, c.source) for c in registered] == [
        ("team.top", "Make top.", "entry point team of demo"),
        ("team.vision.train.start", "Make deep.", "entry point team of demo"),
        ("bare", "Make bare.", "entry point _0 of demo"),
    ]


def test_a_single_function_can_be_registered(files: Files) -> None:
    """Under any name."""
    install(files, "[torchx_core.components]\nmy-train = one_job:train\n")
    files.write("site/one_job.py", component_file("one", "train", "other"))
    assert made("my-train") == "one"
    assert [c.name for c in list_components()] == ["my-train", *BUILT_IN]


def test_what_is_found_first_counts(files: Files) -> None:
    """Registered in our group, in TorchX's, built in, on the path: one after the other."""
    site = install(files, "[torchx.components]\nutils = for_both\n", "theirs")
    install(files, "[torchx_core.components]\nutils = for_us\n", "ours")
    files.write("site/for_us.py", component_file("ours", "echo"))
    files.write("site/for_both.py", component_file("theirs", "echo", "touch"))
    files.write("site/utils.py", component_file("path", "echo", "touch", "sh", "fetch"))
    assert [made(f"utils.{name}") for name in ("echo", "touch", "sh", "fetch")] == [
        "ours",
        "theirs",
        "sh",
        "path",
    ]
    assert [c.name for c in list_components()].count("utils.echo") == 1
    shutil.rmtree(site / "ours-1.0.dist-info")
    assert made("utils.echo") == "theirs"


def test_a_broken_registration_harms_nobody_else(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """It is told in the log when all are listed, and to whoever asks for it; others do not load it."""
    install(files, "[torchx.components]\nbad = bad_jobs\ntext = bad_text\ngone = gone_jobs\nodd = odd_jobs\n")
    files.write("site/bad_jobs.py", "raise OSError('no licence')\ndef f() -> AppDef: ...\n")
    files.write("site/odd_jobs.py", component_file("odd", "fine") + "def flawed(x) -> AppDef: ...\n")
    files.write("site/bad_text.py", "this is no Python\n")
    assert made("utils.echo") == "echo"
    assert caplog.text == ""
    assert [c.name for c in list_components()] == ["odd.fine", *BUILT_IN]
    assert "OSError: no licence" in caplog.text
    assert "bad_text.py:1: is not Python" in caplog.text
    assert "no module gone_jobs" in caplog.text
    assert "argument 'x' has no type annotation" in caplog.text
    with pytest.raises(ComponentValidationException, match="OSError: no licence"):
        find_component("bad.f")


def test_a_broken_registration_without_a_prefix_harms_nobody_else(files: Files) -> None:
    """It may lend any name, and does not stand in the way of those that it has not."""
    install(files, "[torchx.components]\n_0 = broken_module\n_1 = broken_package\n")
    broken = "raise OSError('no licence')\ndef f() -> AppDef: ...\n"
    files.write("site/broken_module.py", f"import ran_for_nothing\n{broken}")
    files.write("site/ran_for_nothing.py", "")
    files.write("site/broken_package/__init__.py", broken)
    assert made("utils.echo") == "echo"
    assert "ran_for_nothing" not in sys.modules
    for name in ("f", "jobs.f"):
        with pytest.raises(ComponentValidationException, match="OSError: no licence"):
            find_component(name)


def test_a_single_function_that_is_not_there_is_told(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """To whoever asks for it, and when all are listed: the registration names nothing else."""
    install(files, "[torchx.components]\nno-module = gone_jobs:f\nno-function = some_jobs:f\n")
    files.write("site/some_jobs.py", component_file("some", "g"))
    with pytest.raises(ComponentNotFoundException, match=r"no-module of demo leads to gone_jobs:f, which is"):
        find_component("no-module")
    with pytest.raises(ComponentNotFoundException, match=r"defines no 'f'; it has g$"):
        find_component("no-function")
    assert [c.name for c in list_components()] == BUILT_IN
    assert "gone_jobs:f, which is not there" in caplog.text


@pytest.mark.parametrize("name", ["dotted_pkg.jobs.train", "dotted_pkg.jobs:train"])
def test_a_dotted_name_leads_to_a_module(files: Files, name: str) -> None:
    """With a dot or a colon before the function; namespace packages on the way are fine."""
    files.write("dotted_pkg/jobs.py", component_file("dotted", "train"))
    sys.path.insert(0, str(files.root))
    component = find_component(name)
    assert (component.name, component.source, component.build().name) == (
        name,
        "module dotted_pkg.jobs",
        "dotted",
    )


def test_torchx_s_own_components_are_modules_like_any_other() -> None:
    """Where TorchX is installed, its built-in ones can be named by their module."""
    pytest.importorskip("torchx")
    app = find_component("torchx.components.utils.echo").build({"msg": "hi"})
    assert (type(app).__module__, app.roles[0].args) == ("torchx_core.specs.app", ["hi"])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "utils.ecko",
            "not registered, not built in, and there is no module 'utils'; did you mean 'utils.echo'?",
        ),
        ("dist.torchrun:", "there is no module 'dist.torchrun'"),
        ("no_such_file.py:f", "there is no file 'no_such_file.py'"),
        ("./no/such/file:f", "there is no file './no/such/file'"),
        ("~nobody-like-that/jobs.py:f", "there is no file '~nobody-like-that/jobs.py'"),
        (f"{'long' * 99}.py:f", "there is no file 'long"),
        ("echo", "it is neither FILE.py:FUNCTION nor MODULE.FUNCTION"),
        ("", "it is neither FILE.py:FUNCTION nor MODULE.FUNCTION"),
        ("..", "there is no module '.'"),
        ("os.path.no.such", "there is no module 'os.path.no'"),
        ("sys.exit", "there is no module 'sys'"),
        ("json.loads2", "defines no 'loads2'; it has no component"),
    ],
)
def test_an_unknown_name_is_told(name: str, why: str) -> None:
    """With where it was looked for, and the closest name."""
    with pytest.raises(ComponentNotFoundException) as refused:
        find_component(name)
    assert str(refused.value).startswith(f"unknown component {name!r}: ")
    assert why in str(refused.value)


def test_a_file_must_be_python(files: Files) -> None:
    """Python decides by the ending, and so do we."""
    file = files.write("component.txt", component_file("x", "f"))
    with pytest.raises(ComponentNotFoundException, match=r"its name must end in \.py"):
        find_component(f"{file}:f")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc has a file that nobody can read, root included")
def test_a_file_that_cannot_be_read_is_told(files: Files) -> None:
    """With what the system says about it."""
    file = files.root / "unreadable.py"
    file.symlink_to("/proc/self/mem")
    with pytest.raises(
        ComponentValidationException, match=r"cannot be loaded: OSError: .*Input/output error"
    ):
        find_component(f"{file}:f")


def test_the_built_in_ones_are_listed_with_what_they_do() -> None:
    """For a table: name, a line, where it comes from."""
    built_in = {c.name: c for c in list_components() if c.source == "built-in"}
    assert list(built_in) == BUILT_IN
    assert built_in["utils.touch"].summary == "Create an empty file, or set the time of one that exists."
    assert all(c.summary.endswith(".") for c in built_in.values())


def test_every_argument_of_a_built_in_component_is_explained() -> None:
    """Deprecated components are left out: each refers to the one that replaces it."""
    unexplained = {
        f"{c.name} {p.name}"
        for c in list_components()
        for p in c.parameters
        if c.source == "built-in" and not p.help
    }
    assert {name.partition(" ")[0] for name in unexplained} == {"dist.ddp", "dist.spmd"}


def test_who_runs_no_component_does_not_pay_for_them() -> None:
    """The package and the runner load without the module that finds components."""
    program = (
        "import sys, torchx_core; torchx_core.get_runner; print('torchx_core.components' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


def test_a_component_knows_where_it_is_defined(files: Files) -> None:
    """The file and the line, for messages and for people."""
    file = files.write("placed.py", "\n\n" + component_file("x", "first", "second"))
    component: Component = find_component(f"{file}:second")
    assert (component.file, component.line, component.source) == (str(file), 7, f"file {file}")
