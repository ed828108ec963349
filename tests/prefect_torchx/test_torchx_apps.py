from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

import pytest

from prefect_torchx import run_app

utils: Any = import_module("torchx.components.utils")


def test_an_app_of_torchx_runs(caplog: pytest.LogCaptureFixture) -> None:
    """A task may be given the work of TorchX's own components."""
    caplog.set_level(logging.INFO, logger="prefect_torchx")
    run_app(utils.echo("hello from TorchX"), session="torchx-apps")
    assert "hello from TorchX" in caplog.text
