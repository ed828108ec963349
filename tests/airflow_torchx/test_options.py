from __future__ import annotations

import json
import secrets

import pytest
from airflow.sdk import Context
from airflow_dags import Dags

from airflow_torchx import TorchXRunOperator, _options
from airflow_torchx._engine import masked
from airflow_torchx.operators import torchx

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

APP = {"name": "a", "roles": [{"name": "r", "image": "busybox", "entrypoint": "true"}]}


@pytest.fixture
def secret() -> str:
    """A value that was hidden for nobody before."""
    return secrets.token_hex()


def _render(**arguments: object) -> TorchXRunOperator:
    operator = TorchXRunOperator(task_id="t", app=APP, **arguments)  # type: ignore[arg-type]
    operator.render_template_fields(Context())
    return operator


@pytest.mark.parametrize("as_text", [True, False])
def test_secrets_among_the_options_are_hidden(secret: str, as_text: bool) -> None:
    """Docker's ``env`` holds variables as a role's does."""
    cfg = f"env=HF_TOKEN:{secret}" if as_text else {"env": {"HF_TOKEN": secret, "MODE": "fast mode"}}
    assert _render(scheduler="local_docker", cfg=cfg).has_option_secrets
    assert masked(f"it is {secret} in fast mode") == "it is *** in fast mode"


def test_secrets_among_a_connections_options_are_hidden(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the operator's own options are; Airflow itself hides what its own words are for."""
    extra = {"scheduler": "local_docker", "cfg": {"env": {"CREDENTIALS": secret}}}
    monkeypatch.setenv("AIRFLOW_CONN_GPUS", json.dumps({"conn_type": "torchx", "extra": extra}))
    _render(torchx_conn_id="gpus", cfg={"grace_s": 1.0})
    assert masked(f"it is {secret}") == "it is ***"


def test_wrong_options_hide_nothing_and_are_told_of_later() -> None:
    """Where they are used, with all that is wrong with them."""
    assert not _render(scheduler="{{ 'nowhere' }}").has_option_secrets
    assert not _render(cfg={"grace_s": "{{ 'soon' }}"}).has_option_secrets


def test_wrong_connections_are_told_of_later_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendering is no place to fail: `execute` fails without a retry."""
    monkeypatch.setenv("AIRFLOW_CONN_GPUS", json.dumps({"conn_type": "torchx", "extra": {"scheduelr": "x"}}))
    assert not _render(torchx_conn_id="gpus").has_option_secrets


def test_a_deferred_task_with_secret_options_shows_its_lines_at_its_end(
    dags: Dags, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The triggerer is another process, and is told no secret that it could hide."""
    monkeypatch.setattr(_options, "hide_option_secrets", lambda _target: True)
    monkeypatch.setattr(torchx, "DEFER_AFTER_S", 0.0)
    outcome = dags.run("""
        TorchXRunOperator(task_id="t", app=app("sh", "-c", "sleep 1; echo hi"), deferrable=True)
    """)
    assert outcome.state == "success"
    assert "here: its secrets are not known" in caplog.text
    assert outcome.log.count("[r/0] hi") == 1
