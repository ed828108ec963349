from __future__ import annotations

import copy
import logging
import sys
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from app_strategies import apps, names, plain_maps
from hypothesis import given

from torchx_core.errors import InvalidAppError, InvalidInputError
from torchx_core.specs import (
    DEL,
    JOIN,
    PUT,
    AppDef,
    OverlaySpec,
    Role,
    apply_overlay,
    get_overlay,
    macros,
    set_overlay,
    snapshot_app,
    validate_app,
    validate_overlay,
)

MARKER = "__torchx_overlays__"


class Priority(Enum):
    """An enum in an overlay."""

    HIGH = 7


@dataclass
class Options:
    """A typed overlay."""

    priority: Priority = Priority.HIGH
    queue: str | None = None
    args: tuple[str, ...] = ()
    nested: list[Options] = field(default_factory=list["Options"])


@pytest.fixture
def role() -> Role:
    """A role without overlays."""
    return Role("trainer", "img", entrypoint="train.py")


def test_overlays_of_one_kind_add_up(role: Role) -> None:
    """In the role's metadata, in TorchX's format; other kinds and namespaces are apart."""
    set_overlay(role, "kubernetes", "V1Pod", {"spec": {"nodeSelector": {"gpu": "a100"}}})
    set_overlay(role, "kubernetes", "V1Pod", {"spec": {"tolerations": [{"key": "gpu"}]}})
    set_overlay(role, "kubernetes", "V1Job", {"backoff": 1})
    pod = {"spec": {"nodeSelector": {"gpu": "a100"}, "tolerations": [{"key": "gpu"}]}}
    assert role.metadata == {"kubernetes": {MARKER: True, "V1Pod": pod, "V1Job": {"backoff": 1}}}
    assert get_overlay(role, "kubernetes", "V1Pod") == pod
    assert get_overlay(role, "kubernetes", "Other") == get_overlay(role, "slurm", "V1Pod") == {}


def test_operators_wait_to_be_applied(role: Role) -> None:
    """They are stored as they are; the last one for a field counts, JOIN adds to a JOIN."""
    set_overlay(
        role, "k", "Pod", {PUT("a"): [1], JOIN("l", on="n"): [{"n": 1, "x": 1}], "d": {DEL("e"): None}}
    )
    set_overlay(role, "k", "Pod", {PUT("a"): [2], JOIN("l", on="n"): [{"n": 1, "y": 2}]})
    stored = get_overlay(role, "k", "Pod")
    assert stored == {PUT("a"): [2], JOIN("l", on="n"): [{"n": 1, "x": 1, "y": 2}], "d": {DEL("e"): None}}
    set_overlay(role, "k", "Pod", {DEL("a"): None, "l": [3]})
    assert get_overlay(role, "k", "Pod") == {"d": {DEL("e"): None}, DEL("a"): None, "l": [3]}


def test_an_app_has_overlays_too() -> None:
    """Beside the strings of its metadata."""
    app = AppDef("app", [Role("r", "img", entrypoint="x")], metadata={"team": "a"})
    set_overlay(app, "kubernetes", "V1Job", {"backoff": 1})
    validate_app(app)
    assert get_overlay(app, "kubernetes", "V1Job") == {"backoff": 1}
    assert app.metadata["team"] == "a"


def test_a_dataclass_is_written_out(role: Role) -> None:
    """Fields that are None are left out, defaults are not; enums become their values, tuples replace."""
    set_overlay(role, "s", "Options", Options(args=("x",), nested=[Options(queue="q")]))
    assert get_overlay(role, "s", "Options") == {
        "priority": 7,
        PUT("args"): ["x"],
        "nested": [{"priority": 7, "queue": "q", PUT("args"): [], "nested": []}],
    }


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ([1], "overlay: must be a map or a dataclass"),
        (Options, "overlay: must be a map or a dataclass"),
        ({1: 2}, "overlay key: must be a string"),
        ({"a": [{"b": {1, 2}}]}, r"overlay\['a'\]\[0\]\['b'\]: must be plain data"),
        (Options(nested=[object()]), r"overlay\['nested'\]\[0\]: must be plain data"),  # type: ignore[list-item]
        ({"held": 1}, r"ns.kind\['held'\]: cannot be merged with \[1\]"),
    ],
)
def test_what_cannot_be_stored_changes_nothing(role: Role, overlay: object, message: str) -> None:
    """It is refused with the path of what is wrong."""
    set_overlay(role, "ns", "kind", {"held": [1]})
    before = copy.deepcopy(role)
    with pytest.raises(TypeError, match=message) as caught:  # as in TorchX
        set_overlay(role, "ns", "kind", overlay)
    assert isinstance(caught.value, InvalidAppError)
    assert role == before


def test_nothing_is_shared(role: Role) -> None:
    """A change to what was given, or to what is returned, changes nothing that is stored."""
    overlay: dict[str, Any] = {"a": {"b": [1]}}
    set_overlay(role, "ns", "kind", overlay)
    overlay["a"]["b"].append(2)
    got: dict[str, Any] = get_overlay(role, "ns", "kind")
    got["a"]["b"].append(3)
    assert get_overlay(role, "ns", "kind") == {"a": {"b": [1]}}


def test_the_marker_is_no_kind(role: Role) -> None:
    """It can be neither written nor read as one."""
    for call in (lambda: set_overlay(role, "ns", MARKER, {}), lambda: get_overlay(role, "ns", MARKER)):
        with pytest.raises(InvalidInputError, match="it marks namespaces"):
            call()


def test_a_namespace_that_is_something_else_has_no_overlay(role: Role) -> None:
    """Metadata is there for others too."""
    role.metadata["ns"] = 3
    assert get_overlay(role, "ns", "kind") == {}


def test_a_namespace_that_is_something_else_is_not_lost(role: Role) -> None:
    """An overlay is not added to a file, and does not take its place."""
    role.metadata["ns"] = "overlays.yaml"
    with pytest.raises(InvalidInputError, match=r"metadata\['ns'\] is 'overlays.yaml'"):
        set_overlay(role, "ns", "kind", {})
    assert role.metadata == {"ns": "overlays.yaml"}


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"a": 1, "b": {"c": 2}}, True),
        ({"a": {"c": 2}}, True),
        ({"a": {}, "b": {}}, False),
        ({}, False),
        ({"a": 1, MARKER: True}, False),
        ("", False),
    ],
)
def test_what_was_written_without_kinds(
    role: Role, metadata: Any, caplog: pytest.LogCaptureFixture, *, found: bool
) -> None:
    """It is taken for the overlay that is asked for, with a warning, unless it looks like kinds."""
    role.metadata["ns"] = metadata or {}
    with caplog.at_level(logging.WARNING):
        assert get_overlay(role, "ns", "kind") == (metadata if found else {})
    assert bool(caplog.records) == found
    assert get_overlay(role, "ns", "kind", flat_fallback=False) == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("o.json", '{"V1Pod": {"a": [1], "__put__:b": [2]}}'),
        ("o.yaml", "V1Pod:\n  a: [1]\n  __put__:b: [2]\n"),
        ("tabs.json", '{\t"V1Pod": {"a": [1],\n\t"__put__:b": [2]}}'),
        ("old.yaml", "V1Pod:\n  a: [1]\n  b: !!python/tuple [2]\n"),
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_overlays_from_a_file(role: Role, tmp_path: Path, name: str, text: str, scheme: str) -> None:
    """The namespace may name one, JSON or YAML, with the kinds in it."""
    (tmp_path / name).write_text(text)
    role.metadata["kubernetes"] = f"{scheme}{tmp_path / name}"
    assert get_overlay(role, "kubernetes", "V1Pod") == {"a": [1], PUT("b"): [2]}
    assert get_overlay(role, "kubernetes", "V1Job", flat_fallback=False) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", r"must hold a map: \[1\]"),
        ("a: [", "is neither JSON nor YAML"),
        ("!!python/object/apply:os.getcwd []", "is neither JSON nor YAML"),
        (None, "cannot read overlay file .*No such file"),
    ],
)
def test_a_file_that_is_no_overlay(role: Role, tmp_path: Path, text: str | None, message: str) -> None:
    """It is named, with what is wrong; no code in it is run."""
    if text is not None:
        (tmp_path / "o.yaml").write_text(text)
    role.metadata["ns"] = str(tmp_path / "o.yaml")
    with pytest.raises(InvalidInputError, match=message):
        get_overlay(role, "ns", "kind")


def test_other_places_are_read_by_fsspec(role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is installed; without it the error says so."""
    memory = import_module("fsspec").filesystem("memory")
    memory.pipe("/o.json", b'{"kind": {"a": 1}}')
    role.metadata["ns"] = "memory://o.json"
    assert get_overlay(role, "ns", "kind") == {"a": 1}
    memory.rm("/o.json")
    with pytest.raises(InvalidInputError, match=r"cannot read overlay file 'memory://o\.json'"):
        get_overlay(role, "ns", "kind")
    monkeypatch.setitem(sys.modules, "fsspec", None)  # Python's own mark for "not there"
    with pytest.raises(InvalidInputError, match="memory:// needs the package fsspec"):
        get_overlay(role, "ns", "kind")


def test_an_overlay_is_part_of_the_request(role: Role) -> None:
    """Macros in it are filled in, and a snapshot has a copy of it."""
    set_overlay(role, "k", "Pod", {"name": f"{macros.app_id}-{macros.replica_id}", "l": [f"{macros.app_id}"]})
    snapshot = snapshot_app(AppDef("app", [role])).roles[0]
    assert snapshot == role
    filled = macros.Values("i", "app-1", "0", "R").apply(snapshot)
    assert get_overlay(filled, "k", "Pod") == {"name": "app-1-0", "l": ["app-1"]}


@pytest.mark.slow
@given(apps, names, names, plain_maps)
def test_overlays_survive_documents(
    app: AppDef, namespace: str, kind: str, overlay: dict[str, object]
) -> None:
    """Those of the app and of its roles, in YAML and JSON, whatever else the metadata has."""
    for target in (app, app.roles[0]):
        target.metadata.pop(namespace, None)
        set_overlay(target, namespace, kind, {"merged": overlay, PUT("put"): overlay, DEL("gone"): None})
    validate_app(app)
    for back in (AppDef.from_yaml(app.to_yaml()), AppDef.from_json(app.to_json())):
        assert back == app
        assert get_overlay(back.roles[0], namespace, kind) == get_overlay(app, namespace, kind)


def test_torchx_reads_what_we_write_and_the_other_way_round(role: Role) -> None:
    """Marker and operators are spelt alike."""
    theirs = import_module("torchx.specs.overlays")
    overlay = {PUT("a"): [1], DEL("b"): None, JOIN("l", on="n"): [{"n": 1}], "m": {"x": 1}}
    assert overlay == {
        theirs.PUT("a"): [1],
        theirs.DEL("b"): None,
        theirs.JOIN("l", on="n"): [{"n": 1}],
        "m": {"x": 1},
    }
    set_overlay(role, "ours", "kind", overlay)
    theirs.set_overlay(role, "theirs", "kind", overlay)
    assert role.metadata["ours"] == role.metadata["theirs"]
    assert theirs.get_overlay(role, "ours", "kind") == get_overlay(role, "theirs", "kind") == overlay


def test_a_scheduler_guards_its_fields() -> None:
    """Whatever the operator; the message says which, and what to do."""
    overlay: dict[str, object] = {"a": 1, PUT("command"): [], JOIN("env", on="name"): []}
    validate_overlay(overlay, blocklist=["image"], forbidden_keys={"spec"})
    with pytest.raises(InvalidInputError, match=r"cannot set V1Pod.command, V1Pod.env; set it on the role"):
        validate_overlay(overlay, blocklist=["command", "env"], overlay_name="V1Pod")
    with pytest.raises(InvalidInputError, match="V1Pod overlay has misplaced fields: a; use V1Job"):
        validate_overlay(overlay, forbidden_keys={"a"}, overlay_name="V1Pod", suggestion="use V1Job")


def test_a_spec_guards_both_ends(role: Role) -> None:
    """A blocked field is refused when it is written, and when somebody wrote it past the spec."""
    spec = OverlaySpec("kubernetes", "V1Pod", blocklist=("command",))
    spec.set(role, Options())
    assert spec.get(role)["priority"] == 7
    with pytest.raises(InvalidInputError, match=r"V1Pod.command"):
        spec.set(role, {DEL("command"): None})
    set_overlay(role, "kubernetes", "V1Pod", {"command": 1})
    with pytest.raises(InvalidInputError, match=r"V1Pod.command"):
        spec.get(role)


def test_a_spec_takes_no_overlay_of_unknown_kind(role: Role) -> None:
    """What was written without kinds may be meant for another."""
    role.metadata["kubernetes"] = {"hostNetwork": True}
    assert OverlaySpec("kubernetes", "V1Pod").get(role) == {}


@given(names, plain_maps)
def test_what_was_set_is_valid(kind: str, overlay: dict[str, object]) -> None:
    """A spec that blocks none of the fields accepts what it stored, and it applies to an empty request."""
    spec, role = OverlaySpec("ns", kind, blocklist=("\0",)), Role("r", "img")
    spec.set(role, overlay)
    assert spec.get(role) == overlay
    request: dict[str, object] = {}
    apply_overlay(request, spec.get(role))
    assert request == overlay
