from __future__ import annotations

from importlib import import_module
from typing import Any

from torchx_core.launch import make_app, to_document
from torchx_core.specs import AppDef, snapshot_app

utils: Any = import_module("torchx.components.utils")


def test_an_app_of_torchx_is_rendered_and_made_again() -> None:
    """What an operator is given may be the work of TorchX's own components, templates included."""
    given = utils.sh("echo", "{{ ds }}", num_replicas=2, env={"DAY": "{{ ds }}"}, max_retries=1)
    document = to_document(given)
    assert isinstance(document, dict)
    document["roles"][0]["env"]["DAY"] = "2026-01-01"
    app = make_app(document, given)
    expected = snapshot_app(given)
    expected.roles[0].env["DAY"] = "2026-01-01"
    assert app == expected
    assert type(app) is AppDef
