"""The interface of TorchX's schedulers: what a scheduler that was written for TorchX derives from.

Who changes ``torchx`` to ``torchx_core`` in such a scheduler's imports has one that runs here. The runner
puts the bridge of `torchx_core.compat` around it, as around the schedulers of an installed TorchX. The bridge
keeps the record of each app, so that handles, owners, cursors and cancelling work as they do everywhere.
A new scheduler derives from `torchx_core.schedulers.Scheduler`, which can promise more.
"""

from __future__ import annotations

import builtins
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from torchx_core.schedulers.responses import DescribeAppResponse, ListAppResponse, Stream
from torchx_core.schedulers.scheduler import Scheduler as Native
from torchx_core.schedulers.structured_opts import StructuredOpts, opts_type_of
from torchx_core.specs import NULL_RESOURCE, AppDef, AppDryRunInfo, CfgVal, Role, Workspace, runopts

__all__ = [
    "DescribeAppResponse",
    "ListAppResponse",
    "Scheduler",
    "Stream",
    "StructuredOpts",
    "filter_regex",
    "split_lines",
    "split_lines_iterator",
]

T = TypeVar("T")


class Scheduler(ABC, Generic[T]):
    """A scheduler as TorchX has them; the type argument is the type of its options, or of its request.

    Options are declared by `run_opts`, or by `_run_opts` as ``Opts.as_runopts()`` of a `StructuredOpts`.
    To implement: `schedule`, `_submit_dryrun`, `describe`, `_cancel_existing`. `log_iter` is what following
    reads lines by.
    """

    def __init__(self, backend: str, session_name: str) -> None:
        """Keep the scheduler's name and the session's."""
        self.backend = backend
        self.session_name = session_name

    def close(self) -> None:  # most hold nothing
        """Release what is held in this process; may be called more than once."""

    def run_opts(self) -> runopts:
        """Return the options that ``cfg`` may hold."""
        return self._run_opts()

    def _run_opts(self) -> runopts:
        """Return the scheduler's own options; those who override `run_opts` need it not."""
        return runopts()

    def submit(self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: Workspace | str | None = None) -> str:
        """Submit the app without a runner, and return its id: `submit_dryrun`, then `schedule`.

        Args:
            app: The first role has the workspace, if one is given; images of roles with one are changed.
            cfg: The options.
            workspace: Built by a scheduler that is a `torchx_core.workspace.WorkspaceMixin` as well.

        Raises:
            ValueError: A workspace is given, and the scheduler builds none.
        """
        if workspace:
            app.roles[0].workspace = (
                Workspace.from_str(workspace) if isinstance(workspace, str) else workspace
            )
        build = getattr(self, "build_workspaces", None)
        if build is not None:
            build(app.roles, self.run_opts().resolve(cfg))
        elif workspace:
            raise ValueError(f"`{self.backend}` does not support workspaces: {str(workspace)!r}")
        return self.schedule(self.submit_dryrun(app, cfg))

    def submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[Any]:
        """Return the request that `schedule` would submit; each role's ``pre_proc`` has seen it.

        Raises:
            InvalidRunConfigException: cfg does not fit `run_opts`.
        """
        resolved: Mapping[str, CfgVal] = self.run_opts().resolve(cfg)
        opts_type = opts_type_of(type(self), Scheduler)
        if opts_type is not None:
            resolved = opts_type.from_cfg(resolved)
        info = self._submit_dryrun(app, cast(Any, resolved))
        for role in app.roles:
            info = role.pre_proc(self.backend, info)
        info.app, info.cfg, info.scheduler = app, resolved, self.backend
        return info

    @abstractmethod
    def _submit_dryrun(self, app: AppDef, cfg: T) -> AppDryRunInfo[Any]:
        """Render the request; ``cfg`` is resolved, and of the `StructuredOpts` that the class names."""

    @abstractmethod
    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        """Submit the request and return the app's id."""

    @abstractmethod
    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return the app's status and description, or None when there is no such app."""

    def describe_native(self, app_id: str) -> AppDryRunInfo[Any] | None:  # noqa: ARG002  # few can
        """Return the app's request as the backend has it, or None where it cannot be read back."""
        return None

    def list(self, cfg: Mapping[str, CfgVal] | None = None) -> builtins.list[ListAppResponse]:
        """Return the backend's apps.

        The runner does not ask this: its list is of the apps that it has submitted.

        Raises:
            NotImplementedError: The scheduler does not say.
        """
        raise NotImplementedError(f"{type(self).__qualname__} does not list its apps")

    def exists(self, app_id: str) -> bool:
        """Return whether there is such an app."""
        return self.describe(app_id) is not None

    @abstractmethod
    def _cancel_existing(self, app_id: str) -> None:
        """End an app that exists."""

    def cancel(self, app_id: str) -> None:
        """End the app; nothing happens when there is none."""
        if self.exists(app_id):
            self._cancel_existing(app_id)

    def delete(self, app_id: str) -> None:
        """Remove what the backend keeps of the app; nothing happens when there is none."""
        if self.exists(app_id):
            self._delete_existing(app_id)

    def _delete_existing(self, app_id: str) -> None:
        """Remove what the backend keeps of an app that exists; by default the app is only cancelled."""
        self._cancel_existing(app_id)

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,  # noqa: FBT001, FBT002  # TorchX's signature
        streams: Stream | None = None,
    ) -> Iterable[str]:
        r"""Return one replica's lines that there are so far, each with its ``\n``.

        The runner asks for whole logs, without ``regex``, times or ``should_tail``, and does the rest itself.

        Raises:
            NotImplementedError: The scheduler has no logs.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no logs")

    def _pre_build_validate(self, app: AppDef, scheduler: str, cfg: T) -> None:
        """Raise ValueError for an app that the scheduler cannot run, before anything is built."""

    def _validate(self, app: AppDef, scheduler: str, cfg: T) -> None:  # noqa: ARG002  # for those who override
        """Raise ValueError for an app that the scheduler cannot run.

        By default that is an app with a role that has no resource.
        """
        for role in app.roles:
            _check_resource(role)


def _check_resource(role: Role) -> None:
    if role.resource == NULL_RESOURCE:
        raise ValueError(f"role {role.name!r} (image {role.image!r}) has no resource; give it one")


Scheduler.register(Native)  # type: ignore[type-abstract]  # for those who ask whether an object is a scheduler


def filter_regex(regex: str, data: Iterable[str]) -> Iterator[str]:
    """Return the texts in which the expression is found."""
    return filter(re.compile(regex).search, data)


def split_lines(text: str) -> list[str]:
    r"""Return the lines of the text, each with its ``\n``; only that ends a line."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def split_lines_iterator(chunks: Iterable[str]) -> Iterator[str]:
    r"""Return the lines of each text, one text after the other, each line with its ``\n``."""
    for chunk in chunks:
        yield from split_lines(chunk)
