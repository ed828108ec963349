"""What is installed below `torchx_plugins` and as entry points, as `PluginRegistry` tells it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from pathlib import Path

import pytest

from torchx_core.plugins import PluginRegistry, PluginSource, PluginType, registry
from torchx_core.schedulers.docker_scheduler import Opts as DockerOpts
from torchx_core.schedulers.local_scheduler import Opts as LocalOpts
from torchx_core.schedulers.local_scheduler import create_scheduler
from torchx_core.specs import AppDef, Role

GOOD = """
from torchx_core.plugins import register

@register.scheduler(name="mine")
def create(session_name): return session_name
"""
METADATA = "Metadata-Version: 2.1\nName: theirs\nVersion: 1\n"
ENTRY_POINTS = "[torchx.schedulers]\nmine = theirs:make\ngone = theirs:nothing\n"

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a file where Python finds it, and forget its module afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]  # pytest leaves it open
    monkeypatch.delenv("TORCHX_PLUGINS_SOURCE", raising=False)
    registry.cache_clear()

    def put(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        invalidate_caches()

    yield put
    registry.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in {"torchx_plugins", "theirs"}]:
        del sys.modules[name]


def test_a_module_that_cannot_be_imported_is_told(install: Install) -> None:
    """The others count; nothing is looked for before somebody asks."""
    install("torchx_plugins/schedulers/good.py", GOOD)
    install("torchx_plugins/schedulers/bad.py", "raise RuntimeError('on purpose')")
    plugins = PluginRegistry(PluginSource.NAMESPACE_PKG)
    assert plugins.errors == []
    assert plugins.get(PluginType.SCHEDULER)["mine"]("s") == "s"
    (error,) = plugins.errors
    assert (error.module, error.plugin_type) == ("torchx_plugins.schedulers.bad", PluginType.SCHEDULER)
    assert error.error == "RuntimeError: on purpose"
    assert plugins.load_errors(PluginType.TRACKER) == []
    assert plugins.load_errors() == [error]
    assert f"  {error.module}: {error.error}" in str(plugins)
    assert plugins.to_dict()["torchx.schedulers"] == {"mine": "torchx_plugins.schedulers.good:create"}


def test_what_was_found_is_remembered_until_it_is_cleared(install: Install) -> None:
    """A plugin that is installed meanwhile is found then."""
    plugins = PluginRegistry(PluginSource.NAMESPACE_PKG)
    first = plugins.get(PluginType.SCHEDULER)
    install("torchx_plugins/schedulers/good.py", GOOD)
    assert plugins.get(PluginType.SCHEDULER) is first == {}
    plugins.clear()
    assert list(plugins.get(PluginType.SCHEDULER)) == ["mine"]


def test_entry_points_come_before_modules(install: Install) -> None:
    """One that leads nowhere is told, with its name."""
    install("torchx_plugins/schedulers/good.py", GOOD)
    install("theirs.py", "def make(session_name): return 'theirs'")
    install("theirs-1.dist-info/METADATA", METADATA)
    install("theirs-1.dist-info/entry_points.txt", ENTRY_POINTS)
    both = PluginRegistry()
    assert both.get(PluginType.SCHEDULER)["mine"]("s") == "theirs"
    assert [(each.name, each.module) for each in both.errors] == [("gone", "theirs:nothing")]
    assert PluginRegistry(PluginSource.NAMESPACE_PKG).get(PluginType.SCHEDULER)["mine"]("s") == "s"


@pytest.mark.parametrize(("value", "names"), [("0", []), ("1", ["mine"]), ("2", []), ("3", ["mine"])])
def test_the_environment_says_where_to_look(
    install: Install, monkeypatch: pytest.MonkeyPatch, value: str, names: list[str]
) -> None:
    """One registry serves the whole process."""
    install("torchx_plugins/schedulers/good.py", GOOD)
    monkeypatch.setenv("TORCHX_PLUGINS_SOURCE", value)
    assert [name for name in registry().get(PluginType.SCHEDULER) if name == "mine"] == names
    assert registry() is registry()


@pytest.mark.usefixtures("install")
@pytest.mark.parametrize("value", ["", "4", "-1", "1a", "both"])
def test_a_wrong_place_to_look_is_an_error(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """It says which there are."""
    monkeypatch.setenv("TORCHX_PLUGINS_SOURCE", value)
    with pytest.raises(ValueError, match=r"TORCHX_PLUGINS_SOURCE is .* 1 \(modules\)"):
        registry()


def test_options_have_types(tmp_path: Path) -> None:
    """`Opts` names every option that there is, and is one to submit with."""
    from torchx_core.schedulers.options.docker import docker_run_opts

    scheduler = create_scheduler("s", state_dir=str(tmp_path))
    for opts, run_opts in ((LocalOpts, scheduler.run_opts()), (DockerOpts, docker_run_opts())):
        ours = [(name, option.opt_type) for name, option in opts.as_runopts()]
        assert ours == [(name, option.opt_type) for name, option in run_opts]
    app = AppDef("a", [Role("r", "", entrypoint="true")])
    info = scheduler.submit_dryrun(app, LocalOpts(log_dir=str(tmp_path / "logs")))
    assert info.request.log_dir.startswith(str(tmp_path / "logs"))
