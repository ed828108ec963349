"""Overlays: fields of a scheduler's own request that an AppDef has no name for.

A user attaches one to an app or a role (`set_overlay`); a scheduler that knows the namespace and the kind
takes it (`get_overlay`), checks it (`validate_overlay`) and lays it over its request (`apply_overlay`). Names
and meaning are those of ``torchx.specs.overlays``.

Example:
    >>> from torchx_core.specs import Role
    >>> role = Role("trainer", "img", entrypoint="train.py")
    >>> set_overlay(role, "kubernetes", "V1Pod", {"spec": {"tolerations": [{"key": "gpu"}]}})
    >>> set_overlay(role, "kubernetes", "V1Pod", {"spec": {PUT("containers"): [{"name": "only"}]}})
    >>> request = {"spec": {"containers": [{"name": "main"}, {"name": "proxy"}]}}
    >>> apply_overlay(request, get_overlay(role, "kubernetes", "V1Pod"))
    >>> request
    {'spec': {'tolerations': [{'key': 'gpu'}], 'containers': [{'name': 'only'}]}}
"""

from torchx_core.specs.overlays.merge import apply_overlay
from torchx_core.specs.overlays.operators import DEL, JOIN, PUT
from torchx_core.specs.overlays.spec import OverlaySpec, validate_overlay
from torchx_core.specs.overlays.storage import get_overlay, set_overlay

__all__ = [
    "DEL",
    "JOIN",
    "PUT",
    "OverlaySpec",
    "apply_overlay",
    "get_overlay",
    "set_overlay",
    "validate_overlay",
]
