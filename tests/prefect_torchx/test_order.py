from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from local_apps import app_of

from prefect_torchx.attachment import Request
from prefect_torchx.order import Order
from torchx_core.errors import (
    ComponentNotFoundException,
    InvalidAppError,
    InvalidInputError,
    InvalidRunConfigException,
    TorchXError,
    UnknownSchedulerException,
)

FLOW_RUN = "9d4f2a60-0000-4000-8000-000000000001"


def _request(*args: Any, work: str = "run", flow_run_id: str = FLOW_RUN, **options: Any) -> Request:
    order = Order.make(*args, **options)
    with order.target.runner() as runner:
        return order.request(runner, work, flow_run_id)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, InvalidInputError, "give either app or component"),
        ({"app": app_of("true"), "component": "utils.echo"}, InvalidInputError, "not both"),
        ({"app": 5}, InvalidAppError, "int"),
        ({"app": "name: app"}, InvalidAppError, "roles"),
        ({"component": "utils.ecko"}, ComponentNotFoundException, "did you mean"),
        ({"app": app_of("true"), "on_worker_shutdown": "kill"}, InvalidInputError, "'detach' or 'cancel'"),
        (
            {"app": app_of("true"), "lease_s": "soon"},
            InvalidInputError,
            "lease_s must be a number above 0, or None: 'soon'",
        ),
        (
            {"app": app_of("true"), "timeout_s": -1},
            InvalidInputError,
            "timeout_s must be a number above 0, or None: -1",
        ),
        ({"app": app_of("true"), "lease_s": 0}, InvalidInputError, "lease_s must be .* above 0, or None: 0"),
        ({"app": app_of("true"), "timeout_s": float("nan")}, InvalidInputError, "above 0, or None: nan"),
        (
            {"app": app_of("true"), "log_limit_mb": float("inf")},
            InvalidInputError,
            "log_limit_mb must be a number of at least 0, or None: inf",
        ),
        ({"app": app_of("true"), "log_limit_mb": True}, InvalidInputError, "log_limit_mb"),
        ({"app": app_of("true"), "idempotency_key": ""}, InvalidInputError, "idempotency_key"),
        ({"app": app_of("true"), "scheduler": "dokcer"}, UnknownSchedulerException, "unknown scheduler"),
        ({"app": app_of("true"), "cfg": {"grace_ss": 1}}, InvalidRunConfigException, "grace_ss"),
        ({"app": app_of("true"), "cfg": "grace_s=soon"}, InvalidRunConfigException, "grace_s"),
        (
            {"app": app_of("true"), "workspace": ".", "cfg": {"unsupported": "refuse"}},
            InvalidAppError,
            "workspace",
        ),
    ],
)
def test_a_mistake_is_found_before_anything_is_submitted(
    given: dict[str, Any], error: type[TorchXError], message: str
) -> None:
    """Each has its class, and a message that names the argument and what was expected."""
    with pytest.raises(error, match=message):
        _request(**given)


@pytest.mark.parametrize(
    ("given", "cfg"),
    [
        ({}, {"lease_s": 600.0}),
        ({"lease_s": 60}, {"lease_s": 60}),
        ({"lease_s": None}, {}),
        ({"cfg": {"lease_s": 5.0}}, {"lease_s": 5.0}),
        ({"timeout_s": 30}, {"timeout_s": 30.0}),
        ({"cfg": "grace_s=5,log_mode=pipe"}, {"grace_s": 5.0, "log_mode": "pipe"}),
    ],
)
def test_arguments_become_options_of_the_scheduler(given: dict[str, Any], cfg: dict[str, Any]) -> None:
    """As options they hold where the app runs; what cfg says itself wins."""
    request = _request(app_of("true"), **given)
    assert cfg.items() <= request.app.cfg.items()
    assert ("lease_s" in cfg or given.get("lease_s", 1)) or request.app.cfg.get("lease_s") is None


def test_a_component_makes_the_app() -> None:
    """With its arguments by name or as the words of a command line."""
    for args in ({"msg": "hello"}, ["--msg", "hello"]):
        request = _request(component="utils.echo", component_args=args)
        assert "hello" in request.app.app.roles[0].args


def test_the_app_says_which_flow_run_it_belongs_to() -> None:
    """Without the caller's object being changed; an app that runs share belongs to none."""
    app = app_of("true")
    assert _request(app).app.app.metadata == {"prefect.flow_run_id": FLOW_RUN}
    assert _request(app, flow_run_id="").app.app.metadata == {}
    assert _request(app, idempotency_key="k").app.app.metadata == {}
    assert app.metadata == {}


@pytest.mark.parametrize(
    "other", [{"work": "another"}, {"cfg": {"grace_s": 1.0}}, {"timeout_s": 5}, {"idempotency_key": "k"}]
)
def test_another_request_is_another_piece_of_work(other: dict[str, Any]) -> None:
    """The run, the options and the key tell pieces of work apart; the same request is the same one."""
    first, second = _request(app_of("true")), _request(app_of("true"))
    assert first.work == second.work
    assert _request(app_of("true"), **other).work.app_id() != first.work.app_id()


def test_a_workspace_that_cannot_be_had_is_left_out_aloud(caplog: pytest.LogCaptureFixture) -> None:
    """So that one flow serves a scheduler that builds workspaces and one that does not."""
    assert _request(app_of("true"), workspace=".").app.workspace == "."
    told = " ".join(record.getMessage() for record in caplog.records)
    assert "workspace: local_cwd cannot lay files over an image" in told


def test_a_workspace_travels_with_the_request(tmp_path: Path) -> None:
    """Two requests with different workspaces are different pieces of work."""
    (tmp_path / "file").write_text("x")
    image = tmp_path / "image"
    image.mkdir()
    app = app_of("true", image=str(image))
    with_it = _request(app, "local_dir", workspace=str(tmp_path))
    assert with_it.app.workspace == str(tmp_path)
    assert with_it.work != _request(app, "local_dir").work
