"""Tasks that materialize assets run apps."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from local_apps import app_of
from prefect import flow
from prefect.assets import add_asset_metadata, materialize
from prefect.settings import PREFECT_API_URL

from prefect_torchx import run_app
from torchx_core.testing import ReportResult, python_program, wait_until

pytestmark = pytest.mark.engine

KEY = "s3://models/test-assets"
EVENT = "prefect.asset.materialization.succeeded"


def materialized() -> list[dict[str, Any]]:
    """Return what Prefect's server knows of the asset."""
    told = {"filter": {"event": {"name": [EVENT]}, "resource": {"id": [KEY]}}}
    answer = httpx.post(f"{PREFECT_API_URL.value()}/events/filter", json=told)
    events: list[dict[str, Any]] = answer.json()["events"]
    return events


@pytest.mark.usefixtures("prefect_api", "runner")
def test_what_an_app_reports_is_an_assets_metadata() -> None:
    """The task materializes it, and its app ran once."""
    program, args = python_program(ReportResult({"accuracy": 0.5}))

    @materialize(KEY)
    def train() -> Any:
        result: Any = run_app(app_of(program, *args))
        add_asset_metadata(KEY, {"accuracy": result["accuracy"]})
        return result

    @flow
    def pipeline() -> Any:
        return train()

    assert pipeline() == {"accuracy": 0.5}
    [event] = wait_until(materialized, 240)
    assert event["payload"] == {"accuracy": 0.5}
