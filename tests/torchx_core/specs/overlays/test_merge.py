from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from torchx_core.errors import InvalidAppError, InvalidInputError
from torchx_core.specs import DEL, JOIN, PUT, Role, apply_overlay, get_overlay, set_overlay
from torchx_core.specs.checks import is_list, is_map
from torchx_core.specs.overlays.operators import read_key

Map = dict[str, object]

fields = st.sampled_from(["a", "b", "c"])
scalars = st.none() | st.integers(0, 3) | st.sampled_from(["x", "y"])
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(fields, v, max_size=3)
)
maps: st.SearchStrategy[Map] = st.dictionaries(fields, values, max_size=3)
matched: st.SearchStrategy[Map] = st.tuples(maps, st.integers(0, 2)).map(lambda two: {**two[0], "n": two[1]})
items: st.SearchStrategy[list[Map]] = st.lists(matched | maps, max_size=3)
"""What JOIN merges: mostly with the field ``n``, also twice the same, also without it."""


def overlays_of(leaves: st.SearchStrategy[object]) -> st.SearchStrategy[Map]:
    """Return overlays whose values are those, with all operators."""
    entry: st.SearchStrategy[tuple[str, Any]] = st.one_of(
        st.tuples(fields, leaves),
        st.tuples(fields.map(PUT), leaves),
        st.tuples(fields.map(DEL), st.none()),
        st.tuples(fields.map(lambda field: JOIN(field, on="n")), items),
    )
    return st.lists(entry, max_size=4).map(dict[str, object])


overlays = overlays_of(values)
deep_overlays = overlays_of(st.recursive(values, overlays_of, max_leaves=4))


def applied(base: Mapping[str, object], *overlays: Mapping[str, object]) -> Map | None:
    """Return the base with the overlays applied one after the other; None when one does not fit."""
    result = copy.deepcopy(dict(base))
    try:
        for overlay in overlays:
            apply_overlay(result, overlay)
    except InvalidAppError:
        return None
    return result


def stored(*overlays: Mapping[str, object]) -> Map | None:
    """Return what is kept of overlays that are set one after the other; None when one does not fit."""
    role = Role("r", "img")
    try:
        for overlay in overlays:
            set_overlay(role, "ns", "kind", overlay)
    except InvalidInputError:
        return None
    return get_overlay(role, "ns", "kind")


APPLIED: list[tuple[Map, Map, Map]] = [
    ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
    ({"a": [1]}, {"a": [2]}, {"a": [1, 2]}),
    ({"a": [1]}, {"a": (2,)}, {"a": [2]}),
    ({"a": 1}, {"a": "x"}, {"a": "x"}),
    ({"a": 1}, {"a": None}, {"a": None}),
    ({"a": [1]}, {PUT("a"): [2]}, {"a": [2]}),
    ({"a": {"x": 1}}, {PUT("a"): 2}, {"a": 2}),
    ({}, {PUT("a"): 2}, {"a": 2}),
    ({"a": 1, "b": 2}, {DEL("a"): None}, {"b": 2}),
    ({}, {DEL("a"): None}, {}),
    ({"a": {"x": [1]}}, {"a": {PUT("x"): [2]}}, {"a": {"x": [2]}}),
    (
        {"l": [{"n": 1, "x": 1}, {"n": 2}]},
        {JOIN("l", on="n"): [{"n": 1, "y": 1}, {"n": 3}, {"z": 0}]},
        {"l": [{"n": 1, "x": 1, "y": 1}, {"n": 2}, {"n": 3}, {"z": 0}]},
    ),
    (
        {"l": [{"n": 1, "m": {"x": 1}}]},
        {JOIN("l", on="n"): [{"n": 1, "m": {}}]},
        {"l": [{"n": 1, "m": {}}]},
    ),
    ({}, {JOIN("l", on="n"): [{"n": 1}, {"n": 1, "x": 2}]}, {"l": [{"n": 1, "x": 2}]}),
    ({}, {"a": {PUT("x"): [1], DEL("y"): None, "z": (1,)}}, {"a": {"x": [1], "z": [1]}}),
]


@pytest.mark.parametrize(("base", "overlay", "result"), APPLIED)
def test_apply(base: Map, overlay: Map, result: Map) -> None:
    """Maps merge, lists append, other values replace; operators say otherwise, wherever they lie."""
    apply_overlay(base, overlay)
    assert base == result


REFUSED: list[tuple[Map, Map, str]] = [
    ({"a": [1]}, {"a": 1}, r"overlay\['a'\]: cannot be merged with \[1\] \(list\): 1 \(int\); use PUT"),
    ({"a": {"b": 1}}, {"a": {"b": {}}}, r"overlay\['a'\]\['b'\]: cannot be merged"),
    ({"a": {}}, {"a": None}, "cannot be merged"),
    ({"a": 1}, {JOIN("a", on="n"): []}, "must be a list of maps"),
    ({"a": [1]}, {JOIN("a", on="n"): []}, "must be a list of maps"),
    ({}, {JOIN("a", on="n"): 1}, "must be a list of maps"),
    ({}, {JOIN("a", on="n"): [1]}, "must be a list of maps"),
    ({}, {JOIN("a", on="n"): [{"n": []}]}, "JOIN matches by plain values"),
    ({}, {JOIN("a", on="n"): [{DEL("x"): None}]}, "take no PUT, JOIN or DEL"),
    ({}, {"__join__:a": []}, "is no key that JOIN"),
]


@pytest.mark.parametrize(("base", "overlay", "message"), REFUSED)
def test_what_does_not_fit(base: Map, overlay: Map, message: str) -> None:
    """It is refused with its path, and never guessed at."""
    with pytest.raises(InvalidAppError, match=message) as caught:
        apply_overlay(base, overlay)
    operator_is_wrong = "take no" in message or "no key" in message
    assert isinstance(caught.value, TypeError) != operator_is_wrong  # as in TorchX


@pytest.mark.parametrize(("key", "on"), [("a:b", "n"), ("a", "")])
def test_join_refuses_what_it_could_not_read_back(key: str, on: str) -> None:
    """A colon in the field's name, or no name to match by."""
    with pytest.raises(InvalidInputError, match="cannot join"):
        JOIN(key, on=on)


@given(maps, deep_overlays)
def test_the_overlay_is_not_changed_and_not_shared(base: Map, overlay: Map) -> None:
    """What is done to the request later never reaches the overlay, nor the other way round."""
    before = copy.deepcopy(overlay)
    result = applied(base, overlay)
    assert overlay == before
    if result is not None:
        _spoil(result)
        assert overlay == before


@given(maps, deep_overlays)
def test_no_operator_reaches_the_request(base: Map, overlay: Map) -> None:
    """However deep it lies, and whether or not there is something beneath it."""
    assert "__" not in json.dumps(applied(base, overlay))


@given(maps, fields, values)
def test_put_is_idempotent(base: Map, field: str, value: object) -> None:
    """Once or twice, applied or stored first."""
    overlay = {PUT(field): value}
    once = applied(base, overlay)
    assert once is not None
    assert once[field] == value
    assert applied(base, overlay, overlay) == once
    assert stored(overlay, overlay) == stored(overlay) == overlay


@given(maps, fields, values)
def test_del_after_put_removes(base: Map, field: str, value: object) -> None:
    """Whether both are applied, or stored and applied together."""
    put, delete = {PUT(field): value}, {DEL(field): None}
    both = stored(put, delete)
    assert both is not None
    assert both == delete
    without = {key: item for key, item in base.items() if key != field}
    assert applied(base, put, delete) == applied(base, both) == without


@given(items, items, items)
def test_join_is_associative(base: list[Map], one: list[Map], two: list[Map]) -> None:
    """Two overlays stored together do what they do one after the other."""
    first, second = {JOIN("l", on="n"): one}, {JOIN("l", on="n"): two}
    both = stored(first, second)
    assert both is not None
    assert applied({"l": base}, first, second) == applied({"l": base}, both)


@given(maps, maps, maps)
def test_overlays_without_operators_are_associative(base: Map, one: Map, two: Map) -> None:
    """Two overlays stored together do what they do one after the other."""
    both = stored(one, two)
    assert (None if both is None else applied(base, both)) == applied(base, one, two)


@given(maps)
def test_an_empty_overlay_changes_nothing(base: Map) -> None:
    """It is the neutral one, and nothing is what it is laid over."""
    assert applied(base, {}) == base
    assert applied({}, base) == base


@settings(deadline=None)  # the first example imports TorchX
@given(maps, overlays)
def test_apply_does_what_torchx_does(base: Map, overlay: Map) -> None:
    """For every overlay that TorchX does not get wrong; see `docs/reference/overlays.md`."""
    assume(all(_distinct(item) for key, item in overlay.items() if read_key(key).operator == "join"))
    theirs: Map | None = copy.deepcopy(base)
    try:
        import_module("torchx.specs.overlays").apply_overlay(theirs, overlay)
    except (TypeError, ValueError):
        theirs = None
    assert applied(base, overlay) == theirs


@settings(deadline=None)
@given(st.lists(overlays, max_size=3))
def test_set_stores_what_torchx_stores(given_overlays: list[Map]) -> None:
    """Key by key, so that each reads what the other wrote."""
    keys = [key for overlay in given_overlays for key in overlay]
    assume(all(keys.count(key) == 1 for key in keys if read_key(key).operator == "put"))
    lists = [o[key] for o in given_overlays for key in o if read_key(key).operator == "join"]
    assume(all(map(_distinct, lists)))
    theirs, role = import_module("torchx.specs.overlays"), Role("r", "img")
    try:
        for overlay in given_overlays:
            theirs.set_overlay(role, "ns", "kind", overlay)
    except (TypeError, ValueError):
        assert stored(*given_overlays) is None
    else:
        assert stored(*given_overlays) == theirs.get_overlay(role, "ns", "kind")


def _distinct(value: Any) -> bool:
    """Return whether no two items have the same ``n``."""
    keys = [item["n"] for item in value if "n" in item]
    return len(keys) == len(set(keys))


def _spoil(value: Map) -> None:
    """Change every map and every list in it."""
    for item in list(value.values()):
        if is_map(item):
            _spoil(cast("Map", item))
        elif is_list(item):
            _spoil({str(i): inner for i, inner in enumerate(item)})
            cast("list[object]", item).clear()
    value["spoiled"] = True
