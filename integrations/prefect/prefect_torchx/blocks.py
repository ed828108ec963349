"""The block that runs an app: described once, saved in Prefect, run from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias, cast

from prefect.blocks.abstract import JobBlock
from prefect.types import SecretDict
from pydantic import ConfigDict, Field, GetPydanticSchema, HttpUrl, WithJsonSchema, model_validator
from pydantic_core import core_schema

from prefect_torchx.block_fields import our_message, read_fields
from prefect_torchx.dispatch import dispatch
from torchx_core.display.masking import mask_values, reveal, secret_texts
from torchx_core.launch import DEFAULT_SCHEDULER, check_target
from torchx_core.specs import AppDef, AppHandle, make_app_handle

if TYPE_CHECKING:  # imported where a job runs: Prefect imports this module also to look around
    from prefect_torchx.job_run import TorchXJobRun
    from prefect_torchx.order import Order

    AnyJobBlock = JobBlock[Any]
else:
    AnyJobBlock = JobBlock  # with [Any] pydantic makes a class of its own, which Prefect registers as a block

__all__ = ["TorchXJob"]


App: TypeAlias = Annotated[
    AppDef | dict[str, Any] | str | None,
    # A job has only maps: what else is given is made one before pydantic sees it.
    GetPydanticSchema(lambda _source, _handler: core_schema.any_schema()),
    WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}]}),
]


class TorchXJob(AnyJobBlock):
    """Run an app on a scheduler: described once here, run from any flow, task or script.

    The app is submitted once. When Prefect runs the same flow run or task again, the job finds the app that
    its predecessor submitted: it follows a running one, returns the result of one that succeeded, and submits
    anew what has failed. Cancelling the flow run, a timeout and Ctrl-C cancel the app; a worker that ends
    does not.

    A job is checked when it is made, and does not change afterwards. Values that look secret by the names of
    their variables or options (HF_TOKEN, --api-key) are kept apart, as secrets: in maps, and in the words of
    a command line (--api-key=…, --api-key …, HF_TOKEN=…), wherever these stand in app, component_args and
    cfg. In a longer text, such as a shell script, nobody looks for them.

    Example:
        Save a job, here or on the Blocks page::

            from prefect_torchx import TorchXJob

            TorchXJob(component="utils.echo", component_args={"msg": "hello"}).save("BLOCK_NAME")

        Run it from a flow::

            from prefect import flow
            from prefect_torchx import TorchXJob


            @flow
            def pipeline():
                job = TorchXJob.load("BLOCK_NAME")
                return job.run()

        Do something else while it runs::

            @flow
            async def pipeline():
                job = await TorchXJob.aload("BLOCK_NAME")
                async with await job.atrigger() as run:
                    ...
                    await run.await_for_completion()
                    return await run.afetch_result()
    """

    _block_type_name = "TorchX Job"
    _block_type_slug = "torchx-job"
    _logo_url = HttpUrl("https://avatars.githubusercontent.com/u/21003710?s=200&v=4")  # PyTorch's
    _documentation_url = HttpUrl("https://pytorch.org/torchx")

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,  # what was checked and hidden stays so
        hide_input_in_errors=True,  # a wrong field's neighbour may be a secret
    )

    app: App = Field(
        default=None,
        description="What to run: a map of the fields of an AppDef, or YAML text; in Python also an AppDef.",
    )
    component: str | None = Field(
        default=None,
        description="In place of an app, the name of a component that makes one, such as dist.torchrun. "
        "A component of a file runs that file's code when the job is made or loaded.",
    )
    component_args: dict[str, Any] | list[Any] | None = Field(
        default=None,
        description="The component's arguments: argument to value, or the words of a command line.",
    )
    workspace: str | None = Field(
        default=None,
        description="Local files to lay over the image of the first role, where the scheduler can do that.",
    )
    scheduler: str = Field(default=DEFAULT_SCHEDULER, description="Where to run it.")
    cfg: dict[str, Any] | str | None = Field(
        default=None,
        description="Options of the scheduler: by name, or as text (grace_s=5,log_dir=/logs).",
    )
    session: str | None = Field(
        default=None, description="Apps of one session are listed together; if empty, torchx."
    )
    lease_s: float | None = Field(
        default=600.0,
        gt=0,
        description="The app cancels itself after so many seconds in which nobody followed it, so that a "
        "lost worker cannot leave it running for ever; if empty, never. Only for schedulers with an option "
        "of that name.",
    )
    timeout_s: float | None = Field(
        default=None, gt=0, description="Cancel the app when it has run for that many seconds."
    )
    log_limit_mb: float | None = Field(
        default=100.0,
        gt=0,
        description="How much of the app's output the run's log shows at most, in millions of characters; "
        "if empty, all. Beyond it the log says where the rest is.",
    )
    on_worker_shutdown: Literal["detach", "cancel"] = Field(
        default="detach",
        description="What a worker that shuts down does: detach leaves the app running for the next try, "
        "cancel stops it.",
    )
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        description="Names the app instead of the run and the request: every run with this key is after "
        "the same app.",
    )
    secrets: SecretDict = Field(
        default_factory=lambda: SecretDict({}),
        description='Values that are not shown, by name; elsewhere {"$secret": name} stands for one.',
    )

    @dispatch
    def run(self) -> Any:  # noqa: ANN401  (any JSON value)
        """Run the app to its end, show its output in the run's log, return the result that it reported.

        The same as `run_app` with this job's fields.

        Raises:
            AppStatusError: The app ended otherwise than SUCCEEDED; the message leads with what failed.
            OvertakenError: A later try of this run has the app; it is left alone.
        """
        from prefect_torchx.app_run import AppRun

        with AppRun(self._order()) as run:
            return run.result(run.run())

    async def arun(self) -> Any:  # noqa: ANN401
        """Await what `run` returns."""
        from prefect_torchx.app_run import AppRun

        async with AppRun(self._order()) as run:
            return run.result(await run.arun())

    @dispatch
    def trigger(self) -> TorchXJobRun:  # type: ignore[override]  # Prefect's is only for asynchronous code
        """Submit the app, or find that of an earlier try, and return without waiting for its end.

        Raises:
            OvertakenError: A later try of this run has the app; it is left alone.
        """
        from prefect_torchx.app_run import AppRun
        from prefect_torchx.job_run import TorchXJobRun

        with AppRun(self._order()) as run:
            run.attach()
            return TorchXJobRun(run.resumption)

    async def atrigger(self) -> TorchXJobRun:
        """Await what `trigger` returns."""
        from prefect_torchx.app_run import AppRun
        from prefect_torchx.job_run import TorchXJobRun

        async with AppRun(self._order()) as run:
            await run.aattach()
            return TorchXJobRun(run.resumption)

    @dispatch
    def attach(self, handle: AppHandle) -> TorchXJobRun:
        """Return a run that looks on at an app, whoever has submitted it, wherever.

        It can wait, show the app's output and get its result; it cancels the app only by `cancel`.

        Args:
            handle: The app's handle, from `TorchXJobRun.handle`, a log or a command line.

        Raises:
            MalformedAppHandleException: It is no handle.
            UnknownAppException: There is no such app.
        """
        from prefect_torchx.job_run import observe

        return observe(handle, self.log_limit_mb)

    async def aattach(self, handle: AppHandle) -> TorchXJobRun:
        """Await what `attach` returns."""
        from prefect_torchx.job_run import observe
        from prefect_torchx.off_loop import in_daemon_thread

        return await in_daemon_thread(observe, handle, self.log_limit_mb)

    @model_validator(mode="before")
    @classmethod
    def _read_fields(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        with our_message():
            return read_fields(given, cls.model_fields)

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Find what is wrong, as far as that can be told without a submit."""
        with our_message(mask_values(secret_texts(self.secrets.get_secret_value()))):
            order = self._order()
            check_target(order.target, order.workspace)
            make_app_handle(order.target.scheduler, order.target.session or "any", "any")
        return self

    def _order(self) -> Order:
        """Return the fields, with the secrets in their places, as `run_app` takes them."""
        from prefect_torchx.order import Order

        secrets = self.secrets.get_secret_value()
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "secrets"}
        revealed = cast("dict[str, Any]", reveal(fields, secrets))
        return replace(Order.make(**revealed), hidden=tuple(secret_texts(secrets)))
