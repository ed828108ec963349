"""The one module that touches TorchX; it is imported by name when a bridge is made, and never otherwise.

TorchX is an optional, untyped neighbour, so there is no import statement for it anywhere: what is used of it
is written down here as protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from inspect import signature
from subprocess import CalledProcessError, TimeoutExpired
from types import ModuleType
from typing import Any, Final, Protocol, cast

from torchx_core.errors import (
    InvalidAppError,
    SchedulerError,
    UnknownSchedulerException,
)
from torchx_core.schedulers import Stream, api
from torchx_core.schedulers.api import split_lines
from torchx_core.schedulers.causes import causes
from torchx_core.specs import AppDef, AppState, CfgVal, ReplicaStatus, Role, runopts

__all__ = [
    "NativeDryRun",
    "NativeStatus",
    "Upstream",
    "dry_run",
    "make_scheduler",
    "native_id_of",
    "replica_statuses",
    "run_opts",
    "say",
    "scheduler_classes",
    "state_of",
    "stream",
    "to_torchx",
    "translated",
    "was_cut_off",
]


_SHELLS_KILLED: Final = 128
"""What a shell adds to the number of the signal that killed its program; ssh loses a connection with 255."""
_SPENT: Final = ("overrides", "workspace")  # applied, and refused, before a request is rendered


class NativeDryRun(Protocol):
    """TorchX's dry run; its ``request`` is what is submitted."""

    request: object


class NativeOption(Protocol):
    """One of TorchX's run options."""

    default: CfgVal
    opt_type: object
    is_required: bool
    help: str


class NativeState(Protocol):
    """A member of TorchX's ``AppState``."""

    name: str


class NativeReplica(Protocol):
    """TorchX's status of a replica."""

    id: int
    state: NativeState
    role: str
    hostname: str
    structured_error_msg: str


class NativeRole(Protocol):
    """TorchX's status of a role."""

    replicas: Sequence[NativeReplica]


class NativeStatus(Protocol):
    """What TorchX's ``describe`` answers."""

    state: NativeState
    num_restarts: int
    msg: str
    structured_error_msg: str
    ui_url: str | None
    roles_statuses: Sequence[NativeRole]


class Upstream(Protocol):
    """A scheduler of TorchX."""

    def close(self) -> None:
        """Release what it holds."""
        ...

    def run_opts(self) -> Iterable[tuple[str, NativeOption]]:
        """Return the options."""
        ...

    def submit_dryrun(self, app: object, cfg: Mapping[str, CfgVal]) -> NativeDryRun:
        """Render the request."""
        ...

    def schedule(self, dryrun_info: NativeDryRun) -> str:
        """Submit the request and return the app id."""
        ...

    def describe(self, app_id: str) -> NativeStatus | None:
        """Return how the app is doing."""
        ...

    def cancel(self, app_id: str) -> None:
        """End the app; may block."""
        ...

    def log_iter(self, app_id: str, role_name: str, k: int, *, streams: object) -> Iterator[str]:
        """Return the lines written so far."""
        ...


def make_scheduler(backend: str, name: str, session_name: str, params: Mapping[str, object]) -> Upstream:
    """Return a new TorchX scheduler.

    It is made on a thread of its own: in the main thread TorchX's local scheduler would replace the process's
    handlers of SIGTERM and SIGINT for good.

    Raises:
        UnknownSchedulerException: TorchX knows none of that name.
        SchedulerError: It cannot be made; a client library is missing, for example.
    """
    with translated("TorchX cannot be imported", SchedulerError):
        factories = cast(
            "dict[str, Callable[..., object]]",
            import_module("torchx.schedulers").get_scheduler_factories(),
        )
    if name not in factories:
        prefix = backend.removesuffix(name)
        raise UnknownSchedulerException(backend, [prefix + known for known in factories])
    with (
        translated(f"TorchX cannot make its scheduler {name!r}", SchedulerError),
        ThreadPoolExecutor(1, thread_name_prefix="torchx-compat") as thread,
    ):
        upstream = thread.submit(factories[name], session_name, **params).result()
    _split_fast(upstream)
    return cast(Upstream, upstream)


def _split_fast(upstream: object) -> None:
    """Give TorchX a `split_lines` that does the same in linear time; its own takes a minute for 20 MB.

    This is the one thing that is replaced inside TorchX. Its schedulers call the function for each log that
    they read, and there is no way around it.
    """
    api = "torchx.schedulers.api"
    for home in map(import_module, {api, *(cls.__module__ for cls in type(upstream).__mro__)}):
        # Told by where it was defined: its own home may have lost it to an earlier scheduler's sake already.
        if getattr(getattr(home, "split_lines", None), "__module__", None) == api:
            vars(home)["split_lines"] = split_lines


def scheduler_classes(upstream: Upstream) -> list[str]:
    """Return ``module.name`` of the scheduler's classes, its own first."""
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in type(upstream).__mro__]


def run_opts(upstream: Upstream) -> runopts:
    """Return TorchX's options as ours, one to one; help texts on one line."""
    opts = runopts()
    for key, option in upstream.run_opts():
        explanation = " ".join(option.help.split())
        opts.add(key, option.opt_type, explanation, option.default, required=option.is_required)
    return opts


def dry_run(upstream: Upstream, name: str, app: AppDef, cfg: Mapping[str, CfgVal]) -> NativeDryRun:
    """Have TorchX render the request, with the checks that its own runner makes.

    Raises:
        InvalidAppError: TorchX refuses the app or the options together.
        SchedulerError: It cannot say.
    """
    given = {key: value for key, value in cfg.items() if value is not None}
    native = app if _is_ours(upstream) else to_torchx(app)
    hooks = cast(Any, upstream)
    try:
        with translated("TorchX cannot render the request"):
            for hook in ("_pre_build_validate", "_validate"):  # what plugins implement
                _call_hook(getattr(hooks, hook, None), native, name, given)
            return upstream.submit_dryrun(native, given)
    except SchedulerError as err:
        if isinstance(err.__cause__, ValueError | TypeError):  # how TorchX, and its plugins, refuse an app
            raise InvalidAppError("app", f"TorchX refuses it: {say(err.__cause__)}") from err.__cause__
        raise


def _call_hook(hook: Callable[..., object] | None, *arguments: object) -> None:
    """Call the check; TorchX 0.7 has one of the two, and gives it no options."""
    if hook is None:
        return
    try:
        signature(hook).bind(*arguments)
    except TypeError:
        arguments = arguments[:-1]
    hook(*arguments)


def _is_ours(upstream: object) -> bool:
    """Return whether the scheduler derives from our own copy of TorchX's interface, and takes our types."""
    return isinstance(upstream, api.Scheduler)


def to_torchx(app: AppDef) -> object:
    """Return the app as TorchX's own ``AppDef``."""
    specs = import_module("torchx.specs")
    roles = [_role_to_torchx(specs, role) for role in app.roles]
    return specs.AppDef(name=app.name, roles=roles, metadata=dict(app.metadata))


def _role_to_torchx(specs: ModuleType, role: Role) -> object:
    values = {f.name: getattr(role, f.name) for f in fields(Role) if f.compare and f.name not in _SPENT}
    values["retry_policy"] = specs.RetryPolicy(role.retry_policy.value)
    values["resource"] = _copy(specs, role.resource)
    values["mounts"] = [_copy(specs, mount) for mount in role.mounts]
    return specs.Role(**values)


def _copy(specs: ModuleType, ours: object) -> object:
    """Return the same as TorchX's; 0.7 has no place for a resource's ``tags``, which ask for nothing."""
    theirs = getattr(specs, type(ours).__name__)
    return theirs(**{f.name: getattr(ours, f.name) for f in fields(theirs)})


def native_id_of(native: NativeDryRun) -> str | None:
    """Return the id that TorchX will give the app, where the request says it before it is submitted."""
    request = native.request
    app_id: object = getattr(request, "app_id", None)
    if isinstance(app_id, str) and app_id:
        return app_id
    resource: object = getattr(request, "resource", None)
    if isinstance(resource, Mapping) and "metadata" in resource:  # Kubernetes
        name = cast("dict[str, dict[str, str]]", resource)["metadata"]["name"]
        cfg: Mapping[str, CfgVal] = getattr(native, "cfg", None) or getattr(native, "_cfg", {})  # so in 0.7
        return f"{cfg.get('namespace') or 'default'}:{name}"
    return None


def state_of(native: NativeState) -> AppState:
    """Return TorchX's state as ours; they have the same names."""
    return AppState.__members__.get(native.name, AppState.UNKNOWN)


def replica_statuses(native: NativeStatus) -> list[ReplicaStatus]:
    """Return what TorchX says of single replicas."""
    return [
        ReplicaStatus(
            id=replica.id,
            state=state_of(replica.state),
            role=replica.role,
            hostname=replica.hostname,
            structured_error_msg=replica.structured_error_msg,
            hostaddr=getattr(replica, "hostaddr", None) or "",  # 0.7 has none
        )
        for role in native.roles_statuses
        for replica in role.replicas
    ]


def stream(upstream: Upstream, name: str | None) -> object:
    """Return the scheduler's own name of the stream; None for all there is."""
    if name is None:
        return None
    return Stream(name) if _is_ours(upstream) else import_module("torchx.schedulers.api").Stream(name)


def _away(message: str) -> SchedulerError:
    return SchedulerError(message, retryable=True)


_CUT: Final = frozenset(
    {
        "requests.exceptions.ChunkedEncodingError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "urllib3.exceptions.ProtocolError",
        "urllib3.exceptions.TimeoutError",
    }
)
"""Errors of client libraries that say that no answer came; none of them is imported here."""


def was_cut_off(err: BaseException) -> bool:
    """Return whether an error says that no answer came, so that what was asked may have been done.

    A command that was killed is such a case, and a connection that was lost; one that nobody accepted is not.
    The outermost error that tells decides: what lies below it may be of something else, such as a file of
    credentials that was not there. A client library's own error is told by the system's below it.
    """
    by_library = False
    for cause in causes(err):
        if isinstance(cause, ConnectionRefusedError | FileNotFoundError):
            return False
        if isinstance(cause, CalledProcessError):
            return cause.returncode < 0 or cause.returncode > _SHELLS_KILLED
        names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(cause).__mro__}
        if not _CUT.isdisjoint(names):
            by_library = True
        elif isinstance(cause, ConnectionError | TimeoutError | TimeoutExpired):
            return True
    return by_library


@contextmanager
def translated(problem: str, into: Callable[[str], Exception] = _away) -> Generator[None]:
    """Make an error of ours of whatever TorchX, a plugin or a client library raises inside.

    Args:
        problem: What could not be done; the message begins with it.
        into: Makes the error of the message; a retryable SchedulerError by default.
    """
    try:
        yield
    except Exception as err:
        raise into(f"{problem}: {say(err)}") from err


def say(err: BaseException) -> str:
    """Return an error of TorchX's in one line, with what kind it is."""
    return f"{type(err).__name__}: {' '.join(str(err).split())}"
