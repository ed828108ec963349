"""What a worker shows of an app whose scheduler tells nobody its secrets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect_pool import Pool
from prefect_worker import at_work, until
from secretive import secretive

from prefect_torchx.worker import TorchXJobConfiguration
from prefect_torchx.worker.ending import mask_of
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppDef, AppHandle, Role

ENV = {"API_TOKEN": "hunter2", "DATABASE_URL": "postgresql://ann:sesame@db/runs"}
SAYS = "sh -c 'printf %s \"$ERROR\" > $TORCHELASTIC_ERROR_FILE; echo sent $API_TOKEN; exit 3'"


@pytest.fixture(autouse=True)
def scheduler(tmp_path: Path) -> Iterator[None]:
    """Install the scheduler."""
    with secretive(tmp_path):
        yield


@pytest.mark.anyio
@pytest.mark.engine
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # as for other workers
async def test_the_last_lines_and_the_message_keep_secrets(pool: Pool) -> None:
    """The worker knows from the flow run's job what the scheduler does not tell."""
    env = {**ENV, "ERROR": json.dumps({"message": {"message": "bad hunter2"}})}
    run = pool.ask("patient", scheduler="secretive", command=SAYS, env=env, stream_output=False)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        state = await asyncio.to_thread(run.wait_for)
        await until(lambda: any("sent" in line for line in run.lines()) or None)
    assert "bad ***" in str(state.message)
    assert any("sent ***" in line for line in run.lines())
    assert "hunter2" not in f"{state.message} {run.lines()}"


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner of its own."""
    monkeypatch.setenv("TORCHX_STATE_DIR", str(tmp_path / "state"))
    with get_runner() as runner:
        yield runner


def _app(runner: Runner) -> AppHandle:
    handle = runner.run(AppDef("a", [Role("flow", image="", entrypoint="true", env=ENV)]), "secretive")
    runner.wait(handle, timeout_s=240)
    return handle


@pytest.mark.parametrize(
    "job",
    [None, {}, {"API_TOKEN": "hunter2"}, {**ENV, "DATABASE_URL": "postgresql://ann:sesame@elsewhere/runs"}],
    ids=["deployment deleted", "other environment", "a secret gone", "another database"],
)
def test_nothing_that_cannot_be_masked_is_shown(runner: Runner, job: dict[str, str | None] | None) -> None:
    """A job that was changed since does not tell what the app was given."""
    made_of = None if job is None else TorchXJobConfiguration(env=job)
    assert mask_of(runner, _app(runner), made_of) is None


def test_passwords_of_addresses_are_masked(runner: Runner) -> None:
    """Alone, as elsewhere."""
    mask = mask_of(runner, _app(runner), TorchXJobConfiguration(env=dict(ENV)))
    assert mask is not None
    assert mask("sesame for ann, hunter2") == "*** for ann, ***"


def test_secrets_among_options_are_masked_too() -> None:
    """Docker's option `env` reaches the same process."""
    job = TorchXJobConfiguration(
        scheduler="local_docker", cfg={"env": {"HF_TOKEN": "sesame", "MODE": "fast"}}
    )
    assert job.option_secrets() == ["sesame"]
    assert TorchXJobConfiguration(cfg={"no_such": 1}).option_secrets() == []
