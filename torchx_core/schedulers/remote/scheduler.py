"""A scheduler on another host: what it is asked, an agent answers there."""

from __future__ import annotations

import builtins
import shlex
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from torchx_core.errors import SchedulerError, SubmitFailedError, SubmitOutcomeUnknownError
from torchx_core.schedulers.attached import run_attached
from torchx_core.schedulers.events import UsageSample
from torchx_core.schedulers.option_values import check_grace
from torchx_core.schedulers.remote.agent_client import Dial
from torchx_core.schedulers.remote.feed import RemoteFeed
from torchx_core.schedulers.remote.host import RemoteHost
from torchx_core.schedulers.remote.lines import Share
from torchx_core.schedulers.remote.question import LineError
from torchx_core.schedulers.remote.ssh import dial as dial_ssh
from torchx_core.schedulers.remote.ssh import ssh_to
from torchx_core.schedulers.remote.wire import dump
from torchx_core.schedulers.responses import (
    CancelOutcome,
    DescribeAppResponse,
    Finding,
    FollowOptions,
    ListAppResponse,
    Verdict,
)
from torchx_core.schedulers.scheduler import Scheduler
from torchx_core.specs import AppDef, AppDryRunInfo, AppStatus, CfgVal, LastLines, ReplicaStatus
from torchx_core.supervisor.records import Json

__all__ = ["RemoteRequest", "RemoteScheduler"]


class _Request(Protocol):
    @property
    def app_id(self) -> str: ...


T = TypeVar("T", bound=_Request)
# ssh says 255 of a program that a signal has killed; a shell around it says which. It stays for Ctrl-C.
_SHELL = ("sh", "-c", 'trap : INT QUIT; "$@"; exit $?', "torchx")


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """What is submitted to another host, where it is rendered again.

    Attributes:
        app_id: The app's id.
        app: The app.
        cfg: The resolved options.
        text: What the scheduler there makes of it, for people.
    """

    app_id: str
    app: AppDef
    cfg: Mapping[str, CfgVal]
    text: str

    def __str__(self) -> str:
        """Show it for people; values that look secret are masked."""
        return self.text


class RemoteScheduler(Scheduler[T], Generic[T]):
    """Promises what the scheduler on the other host promises, over one connection per host and process.

    A method that waits for an answer raises a retryable SchedulerError while the host is away. To implement:
    `run_opts`, `_submit_dryrun`, and `_submit`, which is told to the agent by `_call`.
    """

    def __init__(
        self,
        backend: str,
        session_name: str,
        host: RemoteHost,
        *,
        state_dir: str | None = None,
        dial: Dial = dial_ssh,
    ) -> None:
        """Connect to nothing yet.

        Args:
            backend: The name under which it is registered; that of the scheduler there, perhaps with a place.
            session_name: Apps of one session are listed together.
            host: Where the scheduler is.
            state_dir: Where records lie there, relative to the home directory; None for what counts there:
                ``TORCHX_STATE_DIR``, or the XDG state directory.
            dial: How the host is reached.
        """
        super().__init__(backend, session_name)
        self._host = host
        self._state_dir = state_dir
        self._share = Share(host, dial)

    def close(self) -> None:
        """Hang up, unless others of this process still need the connection."""
        self._share.release()

    @abstractmethod
    def _submit(self, request: T) -> str:
        """Have the agent submit the request; return the app's id."""

    def schedule(self, dryrun_info: AppDryRunInfo[T]) -> str:
        """Have the agent create the app, or attach to the one that an equal request created."""
        request = dryrun_info.request
        try:
            return self._submit(request)
        except LineError as err:
            if err.asked:
                raise SubmitOutcomeUnknownError(request.app_id, str(err)) from err
            message = f"cannot submit app {request.app_id!r}: {err}"
            raise SubmitFailedError(message, retryable=err.retryable) from err

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return what is known of the app."""
        return cast("DescribeAppResponse | None", self._call("describe", app_id=app_id))

    def status(self, app_id: str) -> AppStatus | None:
        """Return how the app stands."""
        return cast("AppStatus | None", self._call("status", app_id=app_id))

    def describe_native(self, app_id: str) -> object | None:
        """Return what the backend there says of the app."""
        return self._call("describe_native", app_id=app_id)

    def usage(self, app_id: str) -> Sequence[UsageSample]:
        """Have the agent look."""
        return cast("list[UsageSample]", self._call("usage", app_id=app_id))

    def exec(self, app_id: str, role_name: str, k: int, argv: Sequence[str], *, terminal: bool) -> int:
        """Have the agent say what to run, and run it there over a connection of its own."""
        words = {"app_id": app_id, "role_name": role_name, "k": k, "argv": [*argv], "terminal": terminal}
        step = cast("builtins.list[str]", self._call("step_inside", **words))
        command = f"exec {shlex.join([*_SHELL, *step])}"
        return run_attached(ssh_to(self._host, command, terminal=terminal), needs_reader=True)

    def list(self) -> list[ListAppResponse]:
        """Return the apps of the session, oldest first."""
        return cast("list[ListAppResponse]", self._call("list"))

    def select(
        self, *, newest: int | None = None, begins: str = "", live: bool = False
    ) -> builtins.list[ListAppResponse]:
        """Return the apps that meet every condition, oldest first; no others come over the connection."""
        found = self._call("select", newest=newest, begins=begins, live=live)
        return cast("builtins.list[ListAppResponse]", found)

    def sessions(self) -> builtins.list[str]:
        """Return the sessions that have records there."""
        return cast("builtins.list[str]", self._call("sessions"))

    def cancel(
        self, app_id: str, *, grace_s: float | None = None, reason: str = "", if_owner: str | None = None
    ) -> CancelOutcome:
        """Have the agent ask the app to end.

        Raises:
            InvalidInputError: The grace period is no length of time.
        """
        check_grace(grace_s)
        outcome = self._call("cancel", app_id=app_id, grace_s=grace_s, reason=reason, if_owner=if_owner)
        return cast("CancelOutcome", outcome)

    def delete(self, app_id: str, *, force: bool = False) -> None:
        """Remove the record and the logs of a terminal app, or of a damaged one."""
        self._call("delete", app_id=app_id, force=force)

    def size_bytes(self, app_id: str) -> int:
        """Return the size of the app's record and logs."""
        return cast("int", self._call("size_bytes", app_id=app_id))

    def prune(
        self, *, max_age_s: float | None = None, max_count: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[str]:
        """Delete terminal apps until what is left is within every bound; one question for all of them."""
        told = self._call("prune", max_age_s=max_age_s, max_count=max_count, max_bytes=max_bytes)
        return cast("list[str]", told)

    def diagnose(self) -> builtins.list[Finding]:
        """Look at the way to the host, then at the scheduler there."""
        try:
            found = cast("list[Finding]", self._call("diagnose"))
        except SchedulerError as err:
            return [Finding(subject=self._host.kind, verdict=Verdict.PROBLEM, text=str(err))]
        reached = Finding(subject=self._host.kind, verdict=Verdict.OK, text=f"{self._host.address} answers")
        return [reached, *found]

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> RemoteFeed:
        """Open the app's event stream."""
        question = {**self._question("open"), "app_id": app_id, "options": dump(options)}
        opened = cast("tuple[str, bool]", self._share().call({**question, "cursor": cursor}))
        return RemoteFeed(self._share.again(), question, opened)

    def last_lines(self, app_id: str, replica: ReplicaStatus) -> LastLines:
        """Have the agent read the ends of the attempt's log files."""
        which = ReplicaStatus(replica.id, replica.state, replica.role, "", attempt=replica.attempt)
        told = cast("tuple[list[str], list[str]]", self._call("last_lines", app_id=app_id, replica=which))
        return LastLines(*told)

    def owner(self, app_id: str) -> str | None:
        """Return the owner's token."""
        return cast("str | None", self._call("owner", app_id=app_id))

    def take_over(self, app_id: str, token: str, *, expected: str | None = None, force: bool = False) -> bool:
        """Change the owner by compare-and-set."""
        return bool(self._call("take_over", app_id=app_id, token=token, expected=expected, force=force))

    def _call(self, verb: str, **words: object) -> object:
        return self._share().call({**self._question(verb), "words": dump(words)})

    def _question(self, verb: str) -> Json:
        return {
            "verb": verb,
            "backend": self.backend,
            "session": self.session_name,
            "state_dir": self._state_dir,
        }
