"""What is registered by a decorator is found, and means what it means to TorchX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from torchx_core import AppDef, Role, get_runner
from torchx_core.errors import UnknownSchedulerException
from torchx_core.plugins import PluginType, halve_mem_down_to, powers_of_two_gpus, registered
from torchx_core.specs import Resource
from torchx_core.specs.named_resources import NamedResources

RESOURCES = """
from PACKAGE.plugins import HALF, WHOLE, halve_mem_down_to, powers_of_two_gpus, register
from PACKAGE.specs import Resource

@register.named_resource(aliases=["big"], fractionals=powers_of_two_gpus)
def gpu_host(fractional: float = WHOLE) -> Resource:
    return Resource(cpu=int(16 * fractional), gpu=int(4 * fractional), memMB=int(65536 * fractional))

@register.named_resource(name="mem", fractionals=halve_mem_down_to(minGiB=16))
def memory(fractional: float = WHOLE) -> Resource:
    return Resource(cpu=1, gpu=0, memMB=int(65536 * fractional))

@register.named_resource(fractionals={HALF: "h"})
def plain(fractional: float = WHOLE) -> Resource:
    return Resource(cpu=2, gpu=0, memMB=1)
"""
NAMES = [
    "gpu_host",
    "big",
    "gpu_host_4",
    "gpu_host_2",
    "gpu_host_1",
    "mem",
    "mem_64",
    "mem_32",
    "mem_16",
    "plain",
    "plain_h",
]
SCHEDULER = """
from torchx_core.plugins import register
from torchx_core.schedulers.local import create_dir_scheduler

@register.scheduler(name="{name}")
def make(session_name, **params):
    return create_dir_scheduler(session_name, **params)
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the place of the package ``torchx_plugins`` of a distribution."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    place = tmp_path / "torchx_plugins"
    for kind in ("named_resources", "schedulers"):
        (place / kind / "team").mkdir(parents=True)
    invalidate_caches()
    import_module("torchx.plugins").registry().clear()
    yield place
    import_module("torchx.plugins").registry().clear()
    for name in [name for name in sys.modules if name.startswith(("torchx_plugins", "lib_resources"))]:
        del sys.modules[name]


def shown(make: Callable[..., Any]) -> list[object]:
    """What a factory of a resource makes, of this package or of TorchX."""
    made = make()
    return [made.cpu, made.gpu, made.memMB, made.tags]


@pytest.mark.parametrize("package", ["torchx_core", "torchx"])
def test_resources_are_those_that_torchx_finds(plugins: Path, package: str) -> None:
    """The same names, figures and tags there and here, whoever's decorator marked them."""
    (plugins / "named_resources" / "mine.py").write_text(RESOURCES.replace("PACKAGE", package))
    theirs = import_module("torchx.plugins")
    found = theirs.registry().get(theirs.PluginType.NAMED_RESOURCE)
    ours = registered(PluginType.NAMED_RESOURCE)
    assert sorted(ours) == sorted(NAMES)
    assert {name: shown(ours[name]) for name in NAMES} == {name: shown(found[name]) for name in NAMES}


def test_a_registered_resource_has_a_name(plugins: Path) -> None:
    """It is looked up as any other, and stands over a built-in one of its name."""
    (plugins / "named_resources" / "team" / "mine.py").write_text(
        RESOURCES.replace("PACKAGE", "torchx_core")
        .replace("def plain", 'name="gpu.small")\ndef plain')
        .replace('fractionals={HALF: "h"})\nname="gpu.small")', 'name="gpu.small")')
    )
    resources = NamedResources()
    assert resources["BIG"].gpu == 4
    assert resources["gpu_host_2"].is_fractional()
    assert not resources["gpu_host_4"].is_fractional()
    assert resources["gpu.small"] == Resource(
        cpu=2,
        gpu=0,
        memMB=1,
        tags={"torchx/named_resources.name": "gpu.small", "torchx/named_resources.is_fractional": False},
    )


def test_what_is_registered_can_be_imported(plugins: Path) -> None:
    """All names are attributes of the module, and in its ``NAMED_RESOURCES``."""
    (plugins / "named_resources" / "mine.py").write_text(RESOURCES.replace("PACKAGE", "torchx_core"))
    module = import_module("torchx_plugins.named_resources.mine")
    assert list(module.NAMED_RESOURCES) == NAMES
    assert all(hasattr(module, name) for name in NAMES)


def test_a_module_that_fails_is_left_out(plugins: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so; what others register is there, and names with an underscore are no plugins."""
    (plugins / "named_resources" / "broken.py").write_text("raise KeyError('no')\n")
    (plugins / "named_resources" / "needy.py").write_text("import what_is_not_installed\n")
    (plugins / "named_resources" / "_private.py").write_text("raise SystemExit\n")
    (plugins / "named_resources" / "mine.py").write_text(RESOURCES.replace("PACKAGE", "torchx_core"))
    assert "mem_32" in NamedResources()
    told = " ".join(record.getMessage() for record in caplog.records)
    assert "torchx_plugins.named_resources.broken" in told
    assert "what_is_not_installed" in told


def test_what_a_module_imports_is_not_its_own(plugins: Path) -> None:
    """A resource of another package is registered by that package, or not at all; as in TorchX."""
    (plugins.parent / "lib_resources.py").write_text(RESOURCES.replace("PACKAGE", "torchx_core"))
    (plugins / "named_resources" / "mine.py").write_text("from lib_resources import plain\n")
    theirs = import_module("torchx.plugins")
    assert (
        registered(PluginType.NAMED_RESOURCE) == {} == theirs.registry().get(theirs.PluginType.NAMED_RESOURCE)
    )


def test_nothing_is_found_where_nothing_is_installed() -> None:
    """And nothing is told."""
    assert registered(PluginType.TRACKER) == {}


@pytest.mark.parametrize("text", ["aliases=['mem', 'x'])", "name='sys')"])
def test_a_name_is_registered_once(plugins: Path, text: str) -> None:
    """A second resource of the name, or another thing of it in the module, is an error."""
    source = RESOURCES.replace("PACKAGE", "torchx_core").replace('fractionals={HALF: "h"})', text)
    (plugins / "named_resources" / "twice.py").write_text("import sys\n" + source)
    with pytest.raises((ValueError, AttributeError), match="choose another name"):
        import_module("torchx_plugins.named_resources.twice")


def test_a_scheduler_is_found_by_its_name(plugins: Path, tmp_path: Path) -> None:
    """It runs apps; a list does not run its module, and a built-in scheduler keeps its name."""
    (plugins / "schedulers" / "mine.py").write_text(SCHEDULER.format(name="cellar"))
    (plugins / "schedulers" / "usurper.py").write_text(SCHEDULER.format(name="local_cwd"))
    with get_runner(state_dir=str(tmp_path / "state")) as runner:
        assert "cellar" not in runner.scheduler_backends()
        app = AppDef("a", [Role("r", str(tmp_path), entrypoint="echo", args=["hello"])])
        handle = runner.run(app, "cellar")
        assert list(runner.log_lines(handle, "r", should_tail=True)) == ["hello\n"]
        assert handle.startswith("cellar://")
        assert runner.scheduler("local_cwd").backend == "local_cwd"
        with pytest.raises(UnknownSchedulerException):
            runner.scheduler("attic")


@pytest.mark.parametrize(
    "resource", [Resource(1, 0, 1), Resource(1, 3, 1), Resource(1, 0, 1024 * 12), Resource(1, 0, 1500)]
)
def test_what_cannot_be_halved_is_refused_as_by_torchx(resource: Resource) -> None:
    """No GPU, a number of them that is no power of two, memory that is odd too early."""
    theirs = import_module("torchx.plugins")
    for ours, their in (
        (powers_of_two_gpus, theirs.powers_of_two_gpus),
        (halve_mem_down_to(minGiB=2), theirs.halve_mem_down_to(minGiB=2)),
    ):
        for halve in (ours, their):
            with pytest.raises(ValueError, match=r"\d"):
                halve(resource)
