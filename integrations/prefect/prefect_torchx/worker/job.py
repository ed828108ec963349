"""What a work pool, a deployment and a flow run may say about the app that a flow run becomes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from prefect.workers.base import BaseJobConfiguration, BaseVariables
from pydantic import BaseModel, Field
from typing_extensions import override

from torchx_core.errors import InvalidInputError, UnknownSchedulerException
from torchx_core.launch import (
    DEFAULT_SCHEDULER,
    AppRequest,
    Target,
    make_app,
    runs_on_this_host,
    target_options,
)
from torchx_core.runner import Runner
from torchx_core.schedulers.secrets import secret_parts
from torchx_core.specs import NULL_RESOURCE, AppHandle, get_named_resources, parse_app_handle

if TYPE_CHECKING:
    from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
    from prefect.client.schemas.responses import DeploymentResponse

__all__ = ["ROLE", "TorchXJobConfiguration", "TorchXVariables"]

ROLE: Final = "flow"
"""The app's one role, with one replica: the process that runs the flow."""
DEFAULT_LEASE_S: Final = 86_400.0
"""A flow run does well without its worker, so the lease only has to end what everybody forgot."""


class _AppFields(BaseModel):
    """The fields that job configuration and variables have in common, of our own."""

    scheduler: str = Field(
        default=DEFAULT_SCHEDULER,
        description="Where flow runs execute: local_cwd, local_docker, or any other scheduler installed.",
    )
    cfg: dict[str, Any] | str = Field(
        default_factory=dict,
        title="Scheduler Options",
        description="Options of the scheduler, by name or as text (grace_s=5,log_dir=/logs); "
        "`torchx-core runopts` lists them. They win over the fields below.",
    )
    session: str | None = Field(
        default=None,
        description="The middle part of the app's handle: apps of one session are listed together. "
        "Default: torchx.",
    )
    image: str = Field(
        default="",
        description="What to run in; the scheduler says what that is. For local_docker an image with Prefect "
        "and the flow's dependencies; local_cwd needs none.",
    )
    resource: str | dict[str, Any] | None = Field(
        default=None,
        description="What a flow run needs: the name of a named resource, or a map of cpu (cores), gpu "
        "(devices) and memMB. Default: nothing in particular.",
    )
    lease_s: float | None = Field(
        default=DEFAULT_LEASE_S,
        title="Lease (Seconds)",
        gt=0,
        description="A flow run ends itself when no worker has looked after it for that long. A worker that "
        "stops leaves its flow runs to go on, and the next one takes them up again. null: never.",
    )
    grace_s: float | None = Field(
        default=None,
        title="Grace Period (Seconds)",
        ge=0,
        description="How long a flow run's processes may take to end between SIGTERM and SIGKILL. Default: "
        "the scheduler's.",
    )
    timeout_s: float | None = Field(
        default=None,
        title="Timeout (Seconds)",
        gt=0,
        description="End a flow run that takes longer than that, whatever its own code says. It is enforced "
        "where the flow runs, whether or not a worker is there. Default: never.",
    )
    stream_output: bool = Field(
        default=True,
        description="Show what flow runs print in the output of the worker, too.",
    )


class TorchXVariables(_AppFields, BaseVariables):
    """What the form of a work pool asks for; every field may be set per deployment and per flow run."""


class TorchXJobConfiguration(_AppFields, BaseJobConfiguration):
    """How one flow run becomes an app."""

    @override
    def prepare_for_flow_run(
        self,
        flow_run: FlowRun,
        deployment: DeploymentResponse | None = None,
        flow: Flow | None = None,
        work_pool: WorkPool | None = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Complete command and environment; Prefect calls it once, before `request`."""
        super().prepare_for_flow_run(flow_run, deployment, flow, work_pool, worker_name, worker_id)
        if not runs_on_this_host(self.scheduler):
            return  # what does inherits this process's environment, and runs its Python
        if self.command == self._base_flow_run_command():
            # `prefect` need not be on PATH, and the one that is may belong to another environment.
            self.command = shlex.join([sys.executable, "-m", *shlex.split(self.command)])
        # What is inherited anyway, API keys among it, need not be written into the app's record.
        self.env = {name: value for name, value in self.env.items() if os.environ.get(name) != value}

    @property
    def target(self) -> Target:
        """Where the flow run executes."""
        chosen = {"grace_s": self.grace_s, "timeout_s": self.timeout_s}
        given = {name: value for name, value in chosen.items() if value is not None}
        return Target(scheduler=self.scheduler, session=self.session, cfgs=(given, self.cfg))

    def at(self, recorded: AppHandle) -> Self:
        """Return the job for the place where its app was to be submitted before: two places are two apps.

        Raises:
            InvalidInputError: The job is for another scheduler by now.
        """
        place = parse_app_handle(recorded)
        if place.scheduler_backend != self.scheduler:
            raise InvalidInputError(
                f"the scheduler of this flow run was changed while it was being submitted: {self.scheduler}; "
                f"expected {place.scheduler_backend}, for {recorded}; start the flow run again"
            )
        return self.model_copy(update={"session": place.session_name})

    def option_secrets(self) -> list[str]:
        """Return the secrets among the scheduler's options, as in Docker's ``env``; none if one is wrong."""
        try:
            options = target_options(self.scheduler)
            cfg = self.target.cfg(options) if options else {}
        except (InvalidInputError, UnknownSchedulerException):
            return []
        environments = (value for value in cfg.values() if isinstance(value, Mapping))
        variables = (variable for environment in environments for variable in environment.items())
        return [part for name, value in variables for part in secret_parts(name, str(value))]

    def request(self, runner: Runner) -> AppRequest:
        """Return what to submit.

        Raises:
            TorchXError: Something in the job's variables is wrong; the message names it.
        """
        app = make_app(self._document())
        request = AppRequest.make(runner, app, self.target, lease_s=self.lease_s, deadline=None)
        runner.dryrun(request.app, request.scheduler, request.cfg)
        return request

    def _document(self) -> dict[str, Any]:
        """Return the app as plain values: `make_app` checks them, and its errors name the wrong one."""
        program, *args = shlex.split(self.command or self._base_flow_run_command())
        flow = {"name": ROLE, "image": self.image, "entrypoint": program, "args": args}
        needs = {"env": self.env, "resource": self._resource()}
        return {"name": "flow-run", "roles": [{**flow, **needs}], "metadata": self.labels}

    def _resource(self) -> dict[str, Any]:
        if isinstance(self.resource, str):
            named = get_named_resources(self.resource)
            return {"cpu": named.cpu, "gpu": named.gpu, "memMB": named.memMB, "devices": named.devices}
        anything = {"cpu": NULL_RESOURCE.cpu, "gpu": NULL_RESOURCE.gpu, "memMB": NULL_RESOURCE.memMB}
        return {**anything, **(self.resource or {})}
