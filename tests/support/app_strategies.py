"""Whole apps for property tests."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st

from torchx_core.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
    Workspace,
)

__all__ = [
    "apps",
    "mounts",
    "names",
    "plain",
    "plain_maps",
    "resources",
    "roles",
    "str_maps",
    "texts",
    "workspaces",
]

# Without an overlay's operators: Hypothesis also draws strings that it finds in our sources.
texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12).filter(
    lambda text: not text.startswith("__")
)
names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6)
counts = st.integers(1, 10**20)
str_maps = st.dictionaries(names, texts, max_size=3)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
plain = st.recursive(
    scalars, lambda x: st.lists(x, max_size=3) | st.dictionaries(texts, x, max_size=3), max_leaves=6
)
plain_maps = st.dictionaries(texts, plain, max_size=3)
mounts = (
    st.builds(BindMount, names, names, st.booleans())
    | st.builds(VolumeMount, names, names, st.booleans())
    | st.builds(DeviceMount, names, names, st.sampled_from(["r", "rw", "rwm"]))
)
workspaces = st.builds(Workspace, str_maps)
resources = st.builds(
    Resource,
    cpu=st.integers(-1, 9),
    gpu=st.integers(-1, 9),
    memMB=st.integers(-1, 9),
    capabilities=plain_maps,
    devices=st.dictionaries(texts, counts, max_size=3),
    tags=plain_maps,
)
roles = st.builds(
    Role,
    name=names,
    image=texts,
    min_replicas=st.none() | st.just(1),
    entrypoint=names,
    args=st.lists(texts, max_size=3),
    env=str_maps,
    num_replicas=counts,
    max_retries=counts,
    retry_policy=st.sampled_from(RetryPolicy),
    resource=resources,
    port_map=st.dictionaries(texts, st.integers(1, 65535), max_size=3),
    metadata=plain_maps,
    mounts=st.lists(mounts, max_size=3),
    workspace=st.none() | workspaces,
)
apps = st.builds(
    AppDef,
    name=names,
    roles=st.lists(roles, min_size=1, max_size=2, unique_by=lambda r: r.name),
    metadata=st.dictionaries(texts, texts | plain_maps, max_size=3).map(lambda m: cast("dict[str, str]", m)),
)
"""Any valid app; its metadata may hold maps, as overlays are."""
