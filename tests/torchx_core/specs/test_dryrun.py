from __future__ import annotations

from torchx_core.specs import AppDef, AppDryRunInfo


def test_shows_the_request() -> None:
    """Printing shows the request in its scheduler's own form, as it is now."""
    info = AppDryRunInfo([1], lambda request: f"request of {len(request)}")
    info.request.append(2)
    assert f"{info} {info!r}" == "request of 2 request of 2"


def test_starts_without_references() -> None:
    """App, cfg and scheduler are set by the scheduler's dry run."""
    info = AppDryRunInfo("request", str)
    assert (info.request, info.app, info.cfg, info.scheduler) == ("request", None, {}, None)


def test_names_that_torchx_had() -> None:
    """App, cfg and scheduler by the names with an underscore, both ways."""
    info = AppDryRunInfo("request", str)
    values: dict[str, object] = {"app": AppDef("a"), "cfg": {"x": 1}, "scheduler": "fake"}
    for name, value in values.items():
        setattr(info, f"_{name}", value)
        assert getattr(info, name) == getattr(info, f"_{name}") == value
