"""TorchX's events, for those who record calls of their own."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, fields
from importlib import import_module
from typing import Any

import pytest

from torchx_core.runner.events import SourceType, TorchxEvent, log_event, record

theirs: Any = import_module("torchx.runner.events")


def test_an_event_is_that_of_torchx() -> None:
    """Its fields, their order and defaults, and its JSON."""
    assert [(f.name, f.default) for f in fields(TorchxEvent)] == [
        (f.name, f.default) for f in fields(theirs.TorchxEvent)
    ]
    event = TorchxEvent("s", "local", "run", app_metadata={"a": "b"}, source=SourceType.EXTERNAL)
    assert asdict(theirs.TorchxEvent.deserialize(event.serialize())) == asdict(event)
    assert TorchxEvent.deserialize(str(event)) == event
    assert TorchxEvent.deserialize(event) is event


@pytest.mark.parametrize("source", ["EXTERNAL", "nowhere", 3])
def test_an_unknown_source_is_unknown(source: object) -> None:
    """Whoever wrote it."""
    text = json.dumps({"session": "s", "scheduler": "x", "api": "run", "source": source})
    assert TorchxEvent.deserialize(text).source == theirs.TorchxEvent.deserialize(text).source


def test_a_block_is_recorded(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its times, at level INFO of a logger that is named after the destination."""
    monkeypatch.setenv("TORCHX_INTERNAL_SESSION_ID", "mine")
    with (
        caplog.at_level(logging.INFO, "torchx_core.events"),
        log_event("upload", "slurm", app_id="a", runcfg="{}"),
    ):
        pass
    (told,) = caplog.records
    event = TorchxEvent.deserialize(told.getMessage())
    assert told.name == "torchx_core.events.null"
    assert (event.session, event.api, event.scheduler, event.app_id) == ("mine", "upload", "slurm", "a")
    assert event.wall_time_usec is not None
    assert event.cpu_time_usec is not None
    assert event.start_epoch_time_usec is not None
    assert event.exception_type is None


def test_what_a_block_raises_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    """And raised."""
    with (
        caplog.at_level(logging.INFO, "torchx_core.events"),
        pytest.raises(KeyError),
        log_event("upload"),
    ):
        raise KeyError("gone")
    event = TorchxEvent.deserialize(caplog.records[0].getMessage())
    assert (event.exception_type, event.exception_message) == ("KeyError", "'gone'")
    assert json.loads(str(event.exception_source_location))["filename"] == __file__
    assert "Traceback" in str(event.raw_exception)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """Unless somebody listens."""
    record(TorchxEvent("s", "x", "run"), "console")
    assert capfd.readouterr() == ("", "")
