from __future__ import annotations

from importlib import import_module

import pytest

from torchx_core.specs import (
    NA,
    TORCHX_CONTEXT_NAME,
    CapabilityKey,
    Resource,
    app_metadata,
)

torchx_specs = import_module("torchx.specs")

BANDWIDTH = CapabilityKey("aws", "network_bandwidth_gbps", int)
EFA = CapabilityKey("aws", "efa_enabled", bool)


def test_a_capability_is_stored_under_its_plain_key() -> None:
    """Who reads the dict by hand finds it."""
    resource = Resource(1, 0, 1)
    BANDWIDTH.set(resource, 400)
    assert resource.capabilities == {"aws.network_bandwidth_gbps": 400}
    assert BANDWIDTH.get(resource) == 400


def test_what_is_not_there_is_the_default() -> None:
    """None when there is none."""
    assert BANDWIDTH.get(Resource(1, 0, 1)) is None
    assert BANDWIDTH.get(Resource(1, 0, 1), 100) == 100
    assert EFA.get(Resource(1, 0, 1), default=False) is False


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            BANDWIDTH,
            "400",
            r"resource.capabilities\['aws.network_.*'\]: expected `int`, got `str`: '400'",
        ),
        (BANDWIDTH, True, r"expected `int`, got `bool`: True"),
        (EFA, 1, r"expected `bool`, got `int`: 1"),
    ],
)
def test_a_value_of_another_type_is_refused(key: CapabilityKey[object], value: object, message: str) -> None:
    """A bool is no int, though Python says so."""
    resource = Resource(1, 0, 1, {key.key: value})
    with pytest.raises(TypeError, match=message):
        key.get(resource)


def test_keys_compare_by_what_they_name() -> None:
    """A key may be written down twice."""
    assert len({CapabilityKey("a", "b", int), CapabilityKey("a", "b", int)}) == 1
    assert len({CapabilityKey[object]("a", "b", int), CapabilityKey[object]("a", "b", str)}) == 2


def test_metadata_keys_are_torchxs() -> None:
    """Programs that read the metadata of jobs look for these spellings."""
    assert (NA, TORCHX_CONTEXT_NAME) == (torchx_specs.NA, torchx_specs.TORCHX_CONTEXT_NAME)
    for name in ("CONTEXT", "VERSION", "SCHEDULER", "ROLES_PREFIX"):
        assert getattr(app_metadata, name) == getattr(torchx_specs.app_metadata, name)
