from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import cast

import pytest

from torchx_core.errors import InvalidAppError, InvalidInputError, NotFoundError, UnknownNamedResourceError
from torchx_core.specs import (
    NULL_RESOURCE,
    Resource,
    get_named_resources,
    named_resources,
    named_resources_aws,
    resource,
)
from torchx_core.specs.named_resources import NamedResources

torchx_specs = import_module("torchx.specs")

MODULE = """
from torchx_core.specs import Resource
from torchx.specs import Resource as TorchXResource

SHARED = Resource(1, 2, 3, {}, {"x": 1}, {"torchx/named_resources.name": "other"})

def big() -> Resource:
    return Resource(64, 8, 1024)

def foreign():
    return TorchXResource(1, 2, 3, {"a": True}, {"b": 4}, {"c": 5})

NAMED_RESOURCES = {
    "big": big, "gpu.small": big, "foreign": foreign, "shared": lambda: SHARED,
    "Twice": big, "tWICE": big, "none": lambda: None, "float": lambda: Resource(1.5, 0, 1),
}
not_callable = 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on sys.path with modules of a deployment."""
    (tmp_path / "txc_resources.py").write_text(MODULE)
    (tmp_path / "txc_bare.py").write_text("")
    (tmp_path / "txc_list.py").write_text("NAMED_RESOURCES = ['a']")
    (tmp_path / "txc_value.py").write_text("NAMED_RESOURCES = {'a': 1}")
    (tmp_path / "txc_bomb.py").write_text("raise ImportError('libfoo.so is missing')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    invalidate_caches()
    return tmp_path


@pytest.fixture
def custom(folder: Path, monkeypatch: pytest.MonkeyPatch) -> NamedResources:
    """The named resources with a module of the deployment's."""
    assert (folder / "txc_resources.py").exists()
    monkeypatch.setenv("TORCHX_CUSTOM_NAMED_RESOURCES", "txc_resources")
    return NamedResources()


def plug_in(folder: Path, group: str, *entries: str) -> NamedResources:
    """Return the named resources with a distribution of these entry points installed."""
    info = folder / f"{group.replace('.', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {group}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *entries]) + "\n")
    invalidate_caches()
    return NamedResources()


def test_the_names_are_torchxs() -> None:
    """All 73 of them, in lower case or upper."""
    assert sorted(NamedResources()) == sorted(torchx_specs.named_resources)
    assert len(NamedResources()) == 73


@pytest.mark.parametrize("name", list(torchx_specs.named_resources))
def test_the_figures_are_torchxs(name: str) -> None:
    """Cores, devices, memory, capabilities and tags."""
    assert vars(resource(h=name)) == vars(torchx_specs.resource(h=name))
    assert resource(h=name.upper()) == resource(h=name)


@pytest.mark.parametrize("constant", ["EFA_DEVICE", "NEURON_DEVICE", "K8S_ITYPE"])
def test_the_spellings_are_torchxs(constant: str) -> None:
    """Schedulers look for them."""
    aws = import_module("torchx.specs.named_resources_aws")
    assert getattr(named_resources_aws, constant) == getattr(aws, constant)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (resource, Resource(-1, 0, -1)),
        (lambda: resource(cpu=4, gpu=1, memMB=512), Resource(4, 1, 512)),
        (lambda: resource(1, 2, 3), Resource(1, 2, 3)),
        (lambda: resource(cpu=0, gpu=0, memMB=0), Resource(-1, 0, -1)),
        (lambda: resource(cpu=9, h=""), Resource(9, 0, -1)),
    ],
)
def test_figures(make: Callable[[], Resource], expected: Resource) -> None:
    """What is not given, or is 0, is not asked for: schedulers would hold the app to it."""
    assert make() == expected


def test_a_name_wins_over_figures() -> None:
    """They are ignored."""
    assert resource(cpu=1, gpu=1, memMB=1, h="cpu.large").cpu == 2
    assert get_named_resources("cpu.large") == named_resources["CPU.large"] == resource(h="cpu.large")


@pytest.mark.parametrize("name", ["NULL", "missing"])
def test_the_null_resource_has_names(name: str) -> None:
    """It asks for nothing, so it equals the default of a role: no tag."""
    assert resource(h=name) == NULL_RESOURCE
    assert resource(h=name).get_resource_name() is None


def test_each_lookup_makes_a_new_one(custom: NamedResources) -> None:
    """Changing one changes no other, even if a factory returns the same object each time."""
    for name in ("aws_p5.48xlarge", "shared", "NULL"):
        custom[name].devices["x"] = 99
        assert custom[name].devices.get("x") != 99


def test_an_unknown_name_is_refused_with_the_closest() -> None:
    """It is a KeyError too, so that a mapping's `get` works; the message stays as it is."""
    with pytest.raises(UnknownNamedResourceError) as caught:
        resource(h="gpu.smal")
    assert isinstance(caught.value, NotFoundError)
    assert str(caught.value) == "unknown named resource 'gpu.smal'; did you mean 'gpu.small'?"
    with pytest.raises(KeyError, match=r"unknown named resource 'zzz'; known: MISSING, NULL, aws_c5"):
        resource(h="zzz")
    assert named_resources.get("zzz") is None


def test_a_name_is_in_the_mapping_in_any_case() -> None:
    """As a look-up finds it."""
    assert "GPU.small" in named_resources
    assert "gpu.smal" not in named_resources
    assert object() not in named_resources


def test_a_resource_knows_its_name() -> None:
    """As it is registered; one that nobody named has none."""
    assert resource(h="AWS_T3.medium").get_resource_name() == "aws_t3.medium"
    assert Resource(1, 1, 1).get_resource_name() is None


def test_a_part_of_a_resource_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that TorchX's decorator registers in a module work, with their names and tags."""
    (folder / "txc_parts.py").write_text(
        "from torchx.plugins import register, powers_of_two_gpus\n"
        "from torchx.specs import Resource\n"
        "@register.named_resource(fractionals=powers_of_two_gpus)\n"
        "def box(fractional: float = 1.0) -> Resource:\n"
        "    return Resource(int(8 * fractional), int(4 * fractional), int(1024 * fractional))\n"
    )
    monkeypatch.setenv("TORCHX_CUSTOM_NAMED_RESOURCES", "txc_parts")
    assert [
        (n, resource(h=n).gpu, resource(h=n).is_fractional()) for n in ("box", "box_4", "box_2", "box_1")
    ] == [
        ("box", 4, False),
        ("box_4", 4, False),
        ("box_2", 2, True),
        ("box_1", 1, True),
    ]
    assert resource(h="BOX_2").get_resource_name() == "box_2"
    assert not resource(h="cpu.small").is_fractional()


def test_a_deployments_module_wins_over_the_tables(custom: NamedResources) -> None:
    """A cluster can have its own idea of a small GPU."""
    assert custom["big"] == Resource(64, 8, 1024, tags={"torchx/named_resources.name": "big"})
    assert custom["gpu.small"].gpu == 8
    assert custom["gpu.medium"].gpu == 2


def test_torchxs_own_resources_become_ours(custom: NamedResources) -> None:
    """With all fields, and a tag that is there already kept."""
    made = custom["foreign"]
    assert type(made) is Resource
    assert made == Resource(
        1, 2, 3, {"a": True}, {"b": 4}, {"c": 5, "torchx/named_resources.name": "foreign"}
    )
    assert custom["shared"].get_resource_name() == "other"


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "twice",
            InvalidInputError,
            "'twice' may be any of Twice, tWICE; write it exactly so",
        ),
        ("none", InvalidAppError, r"named resource 'none'.cpu: must be an integer: None \(NoneType\)"),
        ("float", InvalidAppError, r"named resource 'float'.cpu: must be an integer: 1.5 \(float\)"),
    ],
)
def test_bad_entries(custom: NamedResources, name: str, error: type[Exception], message: str) -> None:
    """Refused when they are looked up, by name; the others work."""
    with pytest.raises(error, match=message):
        custom[name]
    assert custom["TWICE".capitalize()].cpu == 64


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "txc_none",
            r"\$TORCHX_CUSTOM_NAMED_RESOURCES=txc_none: No module .*; expected a module",
        ),
        ("txc_bare", r"=txc_bare: module 'txc_bare' has no attribute 'NAMED_RESOURCES'"),
        ("txc_bomb", r"=txc_bomb: libfoo.so is missing"),
        ("txc_list", r"txc_list.NAMED_RESOURCES: must be a map: \['a'\]"),
        (
            "txc_value",
            r"'a' must be a function without arguments that returns a Resource: 1 \(int\)",
        ),
    ],
)
def test_a_broken_module_is_refused(monkeypatch: pytest.MonkeyPatch, module: str, message: str) -> None:
    """TorchX goes on without the module when it is not there, and then does not find the names."""
    monkeypatch.setenv("TORCHX_CUSTOM_NAMED_RESOURCES", module)
    with pytest.raises(InvalidInputError, match=message):
        resource(h="cpu.small")


@pytest.mark.usefixtures("custom")
def test_entry_points_win_over_the_module(folder: Path) -> None:
    """Our group over TorchX's."""
    plug_in(folder, "torchx.named_resources", "big = txc_resources:foreign", "small = txc_resources:foreign")
    found = plug_in(folder, "torchx_core.named_resources", "small = txc_resources:big")
    assert (found["big"].gpu, found["small"].gpu, found["shared"].gpu) == (2, 8, 2)
    assert {"big", "small"} <= set(found)


def test_an_entry_point_is_imported_when_it_is_looked_up(folder: Path) -> None:
    """A broken one harms nobody else, and says where it comes from."""
    found = plug_in(
        folder,
        "torchx_core.named_resources",
        "bomb = txc_bomb:create",
        "value = txc_resources:not_callable",
        "gone = txc_resources:gone",
    )
    assert "bomb" in found
    assert found["cpu.small"].cpu == 1
    with pytest.raises(InvalidInputError, match=r"'bomb' cannot be loaded from txc_bomb:create: libfoo.so"):
        found["bomb"]
    with pytest.raises(InvalidInputError, match=r"'gone' cannot be loaded from txc_resources:gone: "):
        found["gone"]
    with pytest.raises(InvalidInputError, match=r"'value' must be a function"):
        found["value"]


def test_the_tables_cost_nothing_until_they_are_used() -> None:
    """Importing the package loads neither them nor what finds entry points."""
    program = "import sys, torchx_core.specs; print(*sys.modules)"
    loaded = set(subprocess.check_output([sys.executable, "-I", "-c", program], text=True).split())
    heavy = {"torchx_core.specs.named_resources_aws", "torchx_core.specs.named_resources_generic"}
    assert loaded.isdisjoint(heavy | {"importlib.metadata"})


def test_the_function_hides_the_module_of_its_name() -> None:
    """``specs.resource`` is TorchX's function; the module beside it stays importable."""
    assert callable(cast("object", resource))
    assert import_module("torchx_core.specs.resource").Resource is Resource


def test_every_function_of_torchx_for_aws_is_there() -> None:
    """With the same figures and the same instance type."""
    theirs = import_module("torchx.specs.named_resources_aws")
    names = [name for name in dir(theirs) if name.startswith("aws_")]
    assert len(names) > 50
    for name in names:
        ours = getattr(named_resources_aws, name)()
        assert vars(ours) == vars(getattr(theirs, name)()), name
        assert (
            named_resources_aws.instance_type_from_resource(ours)
            == ours.capabilities["node.kubernetes.io/instance-type"]
        )
    with pytest.warns(UserWarning, match="K8S_ITYPE"):
        assert named_resources_aws.instance_type_from_resource(NULL_RESOURCE) is None
    assert not hasattr(named_resources_aws, "aws_p99_huge")
