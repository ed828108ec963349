"""What an app has read and written, in the words of OpenLineage, whose provider is the only one to ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import cast
from urllib.parse import urlsplit

from airflow_torchx import _engine
from torchx_core import get_runner
from torchx_core.specs import AppDef, AppHandle, BindMount, parse_app_handle

__all__ = ["describe_lineage"]


def describe_lineage(app: AppDef, handle: AppHandle, result: object) -> object:
    """Return the app's datasets and its handle, as an ``OperatorLineage``.

    Its inputs are the directories of the host that it has mounted to read, its outputs those that it may
    write to. Its result may add to both, by a list of addresses as ``inputs`` and one as ``outputs``. Inlets
    and outlets of the task are read by the provider itself.
    """
    told = cast("Mapping[object, object]", result) if isinstance(result, Mapping) else {}
    mounts = _mounts(app, handle)
    read = [f"file://{mount.src_path}" for mount in mounts if mount.read_only]
    written = [f"file://{mount.src_path}" for mount in mounts if not mount.read_only]
    source = parse_app_handle(handle).scheduler_backend
    extractors = import_module("airflow.providers.openlineage.extractors")
    facets = import_module("airflow.providers.common.compat.openlineage.facet")
    return extractors.OperatorLineage(
        inputs=_datasets([*read, *_texts(told.get("inputs"))]),
        outputs=_datasets([*written, *_texts(told.get("outputs"))]),
        run_facets={"externalQuery": facets.ExternalQueryRunFacet(externalQueryId=handle, source=source)},
    )


def _mounts(app: AppDef, handle: AppHandle) -> list[BindMount]:
    """Return the app's directories of the host; none where its scheduler mounts nothing, and has said so."""
    parsed = parse_app_handle(handle)
    with get_runner(parsed.session_name) as runner:
        if not runner.scheduler(parsed.scheduler_backend).capabilities.mounts:
            return []
    return [mount for role in app.roles for mount in role.mounts if isinstance(mount, BindMount)]


def _texts(value: object) -> Iterator[str]:
    values = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
    yield from (each for each in values if isinstance(each, str))


def _datasets(addresses: Iterable[str]) -> list[object]:
    """Return them as OpenLineage names them; what is no address (``scheme://place``) is left out."""
    facets = import_module("airflow.providers.common.compat.openlineage.facet")
    names = dict.fromkeys(filter(None, map(_dataset_name, addresses)))
    return [facets.Dataset(namespace=namespace, name=name) for namespace, name in names]


def _dataset_name(address: str) -> tuple[str, str] | None:
    """Return namespace and name, without user, password, query and secrets."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if not parts.scheme or "://" not in address:
        return None
    path = parts.path if parts.scheme == "file" else parts.path.lstrip("/")
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}", _engine.masked(path) or "/"
