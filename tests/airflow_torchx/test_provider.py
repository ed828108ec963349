"""What Airflow finds of the package by its entry point."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from airflow_torchx.get_provider_info import FORM_FIELDS, get_provider_info
from airflow_torchx.hooks.torchx import CONNECTION_FIELDS

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

# In a process of its own, because 3.1 can say it only once, and before anything else has asked
FORM = """
import json
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
[form] = [meta for meta in HookMetaService.hook_meta_data() if meta.connection_type == "torchx"]
print(json.dumps({
    "fields": sorted(form.extra_fields), "password is hidden": form.standard_fields.password.hidden
}))
"""


@pytest.fixture(scope="module")
def manager() -> Any:
    """Airflow's registry of providers."""
    from airflow.providers_manager import ProvidersManager

    return ProvidersManager()  # type: ignore[no-untyped-call]


INFO: dict[str, Any] = get_provider_info()


def test_airflow_finds_the_provider(manager: Any) -> None:
    """Under the name of the distribution, or Airflow would refuse it."""
    assert manager.providers["airflow-provider-torchx"].data["name"] == "TorchX"


def test_airflow_finds_the_connection_type(manager: Any) -> None:
    """With its hook, which can be tried from the form."""
    hook = manager.hooks["torchx"]
    assert (hook.hook_name, hook.connection_id_attribute_name) == ("TorchX", "torchx_conn_id")
    assert hook.connection_testable


def test_airflow_finds_links_triggers_and_the_decorator(manager: Any) -> None:
    """Those that the description names."""
    links = {link for link in manager.extra_links_class_names if link.startswith("airflow_torchx")}
    assert links == set(INFO["extra-links"])
    assert "airflow_torchx.triggers" in {info.trigger_class_name for info in manager.trigger}
    assert "torchx" in {name for name, _ in manager.taskflow_decorators.items()}


@pytest.mark.parametrize(
    "module",
    [
        module
        for kind in ("operators", "sensors", "hooks", "triggers")
        for entry in INFO[kind]
        for module in entry["python-modules"]
    ],
)
def test_every_module_named_has_public_names(module: str) -> None:
    """A module that moved would be missing from Airflow's lists, and nobody would see it."""
    assert import_module(module).__all__


def test_the_form_asks_for_what_a_connection_may_hold() -> None:
    """Nothing less, and nothing that would be refused."""
    assert tuple(FORM_FIELDS) == CONNECTION_FIELDS


def test_the_form_has_our_fields() -> None:
    """In Airflow 3.1 from the hook, in later ones from the description."""
    printed = subprocess.check_output([sys.executable, "-W", "ignore", "-c", FORM], text=True)
    assert json.loads(printed.splitlines()[-1]) == {"fields": sorted(FORM_FIELDS), "password is hidden": True}
