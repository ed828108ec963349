"""An app as plain values, which workflow engines can render, show and store, and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias, cast

from torchx_core.specs import AppDef, Role, snapshot_app, validate_app

__all__ = ["AppDocument", "ComponentArgs", "make_app", "make_component", "to_document"]

ComponentArgs: TypeAlias = Mapping[str, Any] | Sequence[str] | None
"""Argument -> value, or the words of a command line."""

AppDocument: TypeAlias = dict[str, Any] | str
"""An app as plain values; as YAML text where that cannot be read before its templates are rendered."""


def to_document(app: object) -> AppDocument:
    """Return the app as plain values.

    Args:
        app: An ``AppDef`` of ours or of TorchX, a map of its fields, or YAML text.

    Raises:
        InvalidAppError: It is none of these.
    """
    if isinstance(app, Mapping):
        return dict(cast("Mapping[str, Any]", app))
    if not isinstance(app, str):
        return snapshot_app(app).to_dict()
    import yaml

    try:
        loaded: object = yaml.safe_load(app)
    except yaml.YAMLError:
        loaded = None  # an unquoted {{ template }} is no YAML: read it once it is rendered
    return cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else app


def make_app(document: AppDocument, given: object = None) -> AppDef:
    """Build the app from its document, once templates in it are rendered.

    Args:
        document: What `to_document` returned, rendered.
        given: The app it was made from. Roles of the user's own classes are made of those classes again,
            because their ``pre_proc`` is code, which a document cannot hold.

    Raises:
        InvalidAppError: It is no app.
    """
    app = AppDef.from_yaml(document) if isinstance(document, str) else AppDef.from_dict(document)
    originals = getattr(given, "roles", [])
    app.roles = [_in_class_of(originals[i], r) if originals else r for i, r in enumerate(app.roles)]
    validate_app(app)
    return app


def _in_class_of(original: object, role: Role) -> Role:
    if type(original) is Role or not isinstance(original, Role):
        return role
    own = copy.deepcopy(original)
    for field in fields(Role):
        setattr(own, field.name, getattr(role, field.name))
    return own


def make_component(name: str, args: ComponentArgs) -> AppDef:
    """Build the component's app.

    Args:
        name: As `torchx_core.components.find_component` takes it; a file's component runs that file's code.
        args: Its arguments.

    Raises:
        ComponentNotFoundException: There is none of that name.
        ComponentValidationException: It cannot be used as it is written.
        ComponentArgumentError: The arguments do not fit it.
        InvalidAppError: It makes a wrong app.
    """
    from torchx_core.components import find_component  # imported here: who has an app need not pay for it

    app = find_component(name).build(args or ())
    validate_app(app)
    return app
