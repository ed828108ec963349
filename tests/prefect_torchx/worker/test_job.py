"""Job variables, and the apps that they describe."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from pydantic import ValidationError

from prefect_torchx.worker import TorchXJobConfiguration, TorchXVariables, TorchXWorker
from torchx_core.errors import (
    InvalidAppError,
    InvalidInputError,
    InvalidRunConfigException,
    UnknownNamedResourceError,
    UnknownSchedulerException,
)
from torchx_core.launch import AppRequest
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import Resource, make_app_handle

FLOW_RUN = FlowRun(id=uuid4(), flow_id=uuid4(), name="calm-cat")


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """Return a runner of its own; nothing is submitted."""
    with get_runner(state_dir=str(tmp_path)) as own:
        yield own


async def _job(**variables: Any) -> TorchXJobConfiguration:
    """Return the job of a pool with the default template, prepared for a flow run."""
    template = TorchXWorker.get_default_base_job_template()
    nobody = PrefectClient("http://127.0.0.1:9/api")  # without one Prefect would start a server of its own
    job: TorchXJobConfiguration = await TorchXJobConfiguration.from_template_and_values(
        template, variables, client=nobody
    )
    job.prepare_for_flow_run(FLOW_RUN)
    return job


async def _request(runner: Runner, **variables: Any) -> AppRequest:
    return (await _job(**variables)).request(runner)


@pytest.fixture
def anyio_backend() -> str:
    """Return the event loop that Prefect uses."""
    return "asyncio"


pytestmark = pytest.mark.anyio


async def test_the_default_job_runs_prefect_itself(runner: Runner) -> None:
    """With the worker's own Python, one replica, no retries of its own, and a lease of a day."""
    request = await _request(runner)
    (flow,) = request.app.roles
    assert [flow.entrypoint, *flow.args] == [sys.executable, "-m", "prefect", "flow-run", "execute"]
    assert (flow.num_replicas, flow.max_retries) == (1, 0)
    assert flow.env["PREFECT__FLOW_RUN_ID"] == str(FLOW_RUN.id)
    assert request.scheduler == "local_cwd"
    assert request.lease_s == 86_400
    assert request.app.metadata["prefect.io/flow-run-name"] == "calm-cat"


async def test_variables_become_options(runner: Runner) -> None:
    """The scheduler's own options win, texts are read, and no lease is asked for with null."""
    request = await _request(runner, lease_s=None, grace_s=3, timeout_s=60, cfg={"grace_s": "5"})
    assert {name: request.cfg[name] for name in ("lease_s", "grace_s", "timeout_s")} == {
        "lease_s": None,
        "grace_s": 5.0,
        "timeout_s": 60.0,
    }


async def test_no_lease_is_not_called_a_lease_of_0_seconds(runner: Runner) -> None:
    """As everywhere else; the error names the variable."""
    with pytest.raises(ValidationError, match=r"lease_s\n.*greater than 0"):
        await _request(runner, lease_s=0)


async def test_a_job_is_submitted_where_it_was_about_to_be() -> None:
    """In that session, whatever the variables say by now; for another scheduler it is not the same job."""
    recorded = make_app_handle("local_cwd", "before", "a")
    job = await _job(session="now")
    assert job.at(recorded).target.session == "before"
    with pytest.raises(InvalidInputError, match="while it was being submitted: local_docker"):
        (await _job(scheduler="local_docker")).at(recorded)


async def test_a_job_may_have_a_command_and_an_environment(runner: Runner) -> None:
    """The command is split as a shell would; the environment is added to the worker's."""
    request = await _request(runner, command="env 'a b'", env={"GREETING": "hello"})
    (flow,) = request.app.roles
    assert [flow.entrypoint, *flow.args] == ["env", "a b"]
    assert flow.env["GREETING"] == "hello"


async def test_what_is_inherited_is_not_written_down(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API key in the worker's environment reaches the flow run without standing in its record."""
    monkeypatch.setenv("PREFECT_API_KEY", "pnu_secret")
    job = await _job(env={"PREFECT_API_KEY": "pnu_secret"})
    assert "pnu_secret" not in str(job.request(runner).app)
    assert os.environ["PREFECT_API_KEY"] == "pnu_secret"


async def test_a_container_gets_the_image_and_its_own_prefect(runner: Runner) -> None:
    """For Docker the command is found in the image, and the settings are passed on: a dry run shows it."""
    job = await _job(scheduler="local_docker", image="my/flows:1", resource={"cpu": 2, "memMB": 512})
    (flow,) = job.request(runner).app.roles
    assert (flow.image, flow.entrypoint, flow.args) == ("my/flows:1", "prefect", ["flow-run", "execute"])
    assert flow.resource == Resource(cpu=2, gpu=-1, memMB=512)
    assert flow.env["PREFECT__FLOW_RUN_ID"] == str(FLOW_RUN.id)


async def test_a_named_resource_is_looked_up(runner: Runner) -> None:
    """With its devices."""
    (flow,) = (await _request(runner, resource="gpu.small")).app.roles
    assert flow.resource.gpu == 1


@pytest.mark.parametrize(
    ("variables", "error", "message"),
    [
        ({"scheduler": "local_cdw"}, UnknownSchedulerException, "did you mean 'local_cwd'"),
        ({"cfg": {"grace": 5}}, InvalidRunConfigException, "unknown run option 'grace'"),
        ({"cfg": "grace_s=soon"}, InvalidRunConfigException, "grace_s"),
        ({"resource": "gpu.smal"}, UnknownNamedResourceError, "gpu.small"),
        ({"resource": {"ram": 5}}, InvalidAppError, "roles\\[0\\].resource"),
    ],
)
async def test_a_wrong_variable_is_named(
    variables: dict[str, Any], error: type[Exception], message: str, runner: Runner
) -> None:
    """Before anything is submitted, with what was expected."""
    with pytest.raises(error, match=message):
        await _request(runner, **variables)


def test_every_variable_is_described() -> None:
    """The form of a work pool tells what each field means, and fields and job agree."""
    template = TorchXWorker.get_default_base_job_template()
    fields = template["variables"]["properties"]
    assert set(fields) == set(template["job_configuration"]) == set(TorchXVariables.model_fields)
    assert all(field.get("description") for field in fields.values())
    types = {name: field.get("type") for name, field in fields.items()}
    assert (types["scheduler"], types["stream_output"], types["image"]) == ("string", "boolean", "string")


def test_the_reference_lists_every_variable() -> None:
    """With none that there is not."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "prefect.md").read_text()
    table = page[page.index("| variable |") : page.index("The app has one role")]
    first_cells = [row.split("|")[1] for row in table.splitlines()[2:] if row]
    assert set(re.findall(r"`(\w+)`", " ".join(first_cells))) == set(TorchXVariables.model_fields)
