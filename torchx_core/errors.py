"""Every error this project raises on purpose.

::

    TorchXError                              everything raised on purpose
    ├─ InvalidInputError (ValueError)        the caller must change something; never retry
    │  ├─ InvalidAppError                    an AppDef is wrong; names the path inside it
    │  │  ├─ InvalidAppTypeError (TypeError) a value in it has the wrong type
    │  │  └─ InvalidMountError (KeyError)    an option of a mount is wrong
    │  ├─ InvalidRunConfigException          a run option is unknown, missing or of the wrong type
    │  ├─ InvalidOptionTypeError (TypeError) the default of a run option is not of its type
    │  ├─ InvalidConfigError                 a .torchxconfig or a variable is wrong; names file and line
    │  ├─ InvalidCursorError                 a cursor is not one, or belongs to another app
    │  ├─ MalformedAppHandleException        not <scheduler>://<session>/<app_id>
    │  ├─ AppIdConflictError                 the app id is taken by a different request
    │  ├─ ComponentValidationException       a component function cannot be used
    │  ├─ ComponentArgumentError             the arguments given do not fit the component
    │  ├─ ComponentHelpRequested             the arguments ask for help; carries the usage text
    │  ├─ InvalidFunctionError               a function cannot run as an app; names file and line
    │  ├─ FunctionArgumentError              the arguments given do not fit the function, or cannot travel
    │  ├─ AppNotTerminalError                the verb needs a terminal app (delete)
    │  └─ ReplicaNotRunningError             the verb needs a replica that runs (exec)
    ├─ NotFoundError (LookupError)           nothing of that name exists
    │  ├─ UnknownSchedulerException (ValueError)
    │  ├─ UnknownAppException
    │  ├─ UnknownReplicaError (KeyError)
    │  ├─ UnknownNamedResourceError (KeyError)
    │  └─ ComponentNotFoundException
    ├─ SchedulerError                        the outside world failed; `retryable` says whether to try again
    │  ├─ BackendAbsentError                 there is none on this host, and nobody has named one
    │  ├─ RecordUnavailableError             the files of an app cannot be reached just now
    │  ├─ SubmitFailedError                  nothing was left behind
    │  └─ SubmitOutcomeUnknownError          it may have happened: call again with the same app id
    ├─ WaitTimeoutError (TimeoutError)       the app is not terminal yet; it goes on running
    ├─ AppStatusError                        the app ended otherwise than SUCCEEDED; carries its status
    │  └─ FunctionRaisedError                the function that it ran raised; carries the traceback
    └─ StoredStateError                      a record on disk cannot be used
       ├─ CorruptRecordError
       └─ NewerRecordError                   written by a newer version of this library
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from torchx_core.terminal import harmless

if TYPE_CHECKING:
    from torchx_core.specs import AppStatus

__all__ = [
    "AppIdConflictError",
    "AppNotTerminalError",
    "AppStatusError",
    "BackendAbsentError",
    "ComponentArgumentError",
    "ComponentHelpRequested",
    "ComponentNotFoundException",
    "ComponentValidationException",
    "CorruptRecordError",
    "FunctionArgumentError",
    "FunctionRaisedError",
    "InvalidAppError",
    "InvalidAppTypeError",
    "InvalidConfigError",
    "InvalidCursorError",
    "InvalidFunctionError",
    "InvalidInputError",
    "InvalidMountError",
    "InvalidOptionTypeError",
    "InvalidRunConfigException",
    "MalformedAppHandleException",
    "NewerRecordError",
    "NotFoundError",
    "RecordUnavailableError",
    "ReplicaNotRunningError",
    "SchedulerError",
    "StoredStateError",
    "SubmitFailedError",
    "SubmitOutcomeUnknownError",
    "TorchXError",
    "UnknownAppException",
    "UnknownNamedResourceError",
    "UnknownReplicaError",
    "UnknownSchedulerException",
    "WaitTimeoutError",
]


class TorchXError(Exception):
    """Base of everything this project raises on purpose; every subclass survives pickling."""

    def __reduce__(self) -> tuple[Callable[..., TorchXError], tuple[object, ...]]:
        """Rebuild from message and facts: ``BaseException`` would call the constructor with the message."""
        return _rebuild, (type(self), self.args, vars(self))

    def __str__(self) -> str:
        """Return the message; what apps and other programs say in it cannot drive a terminal."""
        return harmless(Exception.__str__(self))  # KeyError's shows a repr

    def to_json(self) -> dict[str, object]:
        """Return type, message and facts as plain JSON values.

        Example:
            >>> UnknownSchedulerException("dokcer", ["docker"]).to_json()["scheduler"]
            'dokcer'
        """
        facts = {k: _plain(v) for k, v in vars(self).items() if not k.startswith("_")}
        return {"type": type(self).__name__, "message": str(self), **facts}


def _rebuild(cls: type[TorchXError], args: tuple[object, ...], facts: dict[str, object]) -> TorchXError:
    error = cls.__new__(cls)
    error.args = args
    vars(error).update(facts)
    return error


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence | set | frozenset):
        return [_plain(v) for v in cast("Iterable[object]", value)]
    return str(value)


_BEGINNING = 3
"""Of so many letters: what was given may be the beginning of a name."""


def did_you_mean(given: str, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known name, or an empty string.

    Args:
        given: What was given.
        known: The names to suggest.
        aliases: Other names that are understood, each with the name to suggest instead.
    """
    import difflib  # imported here: 3 ms that only a failing call should pay

    names = {**(aliases or {}), **{name: name for name in known}}
    begun = [name for name in names if len(given) >= _BEGINNING and name.startswith(given)]
    close = begun if len(begun) == 1 else difflib.get_close_matches(given, names, n=1)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


class InvalidInputError(TorchXError, ValueError):
    """The caller passed something that can never work; retrying is pointless."""


class InvalidAppError(InvalidInputError):
    """An AppDef (or its YAML or JSON document) is wrong at ``path``."""

    def __init__(self, path: str, problem: str) -> None:
        """Say where and what, for example ``("roles[0].num_replicas", "must be at least 1: 0")``."""
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


class InvalidAppTypeError(InvalidAppError, TypeError):
    """A value in an AppDef, or what is laid over a request, has the wrong type."""


class InvalidMountError(InvalidAppError, KeyError):
    """An option of a mount is unknown, missing, or has a value that it cannot have."""


class InvalidRunConfigException(InvalidInputError):
    """The run cfg does not satisfy the scheduler's runopts."""

    def __init__(self, invalid_reason: str, cfg_key: str, cfg: Mapping[str, object]) -> None:
        """Keep TorchX's constructor: the reason, the offending key, the whole cfg."""
        self.cfg_key = cfg_key
        self.cfg: dict[str, object] = dict(cfg)
        super().__init__(f"{invalid_reason}; given: {self.cfg or '<EMPTY>'}")


class InvalidOptionTypeError(InvalidInputError, TypeError):
    """The default of a run option is not of the option's type."""


class InvalidConfigError(InvalidInputError):
    """A configuration file, or an environment variable that stands for one, is wrong."""

    def __init__(self, source: str, line: int | None, problem: str) -> None:
        """Name the place: a path and the line in it, counted from 1, or ``$VARIABLE`` and no line."""
        self.source = source
        self.line = line
        self.problem = problem
        super().__init__(f"{source}: {problem}" if line is None else f"{source}:{line}: {problem}")


class InvalidCursorError(InvalidInputError):
    """The cursor is not one of this scheduler's, or belongs to another app."""

    def __init__(self, cursor: str, problem: str) -> None:
        """Quote the cursor and say what is wrong with it."""
        self.cursor = cursor
        super().__init__(f"unusable cursor {cursor!r}: {problem}; pass one from a batch of this app")


class MalformedAppHandleException(InvalidInputError):
    """The string is not an app handle."""

    def __init__(self, app_handle: str, problem: str = "") -> None:
        """Quote the handle; ``problem`` says which part is wrong."""
        self.app_handle = app_handle
        detail = f" ({problem})" if problem else ""
        super().__init__(
            f"malformed app handle {app_handle!r}{detail};"
            " expected <scheduler_backend>://<session_name>/<app_id>"
        )


class AppIdConflictError(InvalidInputError):
    """The app id exists already and was submitted with a different request."""

    def __init__(self, app_id: str, difference: Sequence[str]) -> None:
        """List the differing paths as ``path: stored -> given``."""
        self.app_id = app_id
        self.difference: list[str] = list(difference)
        super().__init__(
            f"app id {app_id!r} is taken by a different request: {'; '.join(self.difference)};"
            " use another app id, or delete the old app first"
        )


class AppNotTerminalError(InvalidInputError):
    """The verb needs a terminal app."""

    def __init__(self, app_handle: str, state: str, verb: str) -> None:
        """Say which app, its state, and the verb refused."""
        self.app_handle = app_handle
        self.state = state
        super().__init__(f"cannot {verb} {app_handle}: it is {state}; cancel it and wait first")


class ReplicaNotRunningError(InvalidInputError):
    """The verb needs a replica that runs."""

    def __init__(self, app_handle: str, role: str, replica: int, state: str) -> None:
        """Say which replica, and how it stands."""
        self.app_handle = app_handle
        self.role = role
        self.replica = replica
        self.state = state
        super().__init__(f"cannot go inside {role}/{replica} of {app_handle}: it does not run, it is {state}")


class ComponentValidationException(InvalidInputError):
    """A component cannot be used as it is written; all that is wrong with it at once."""

    def __init__(self, component: str, problems: Iterable[Mapping[str, object]]) -> None:
        """Take problems with ``file``, ``line``, ``argument`` (or None), ``problem`` and ``advice``."""
        self.component = component
        self.problems: list[dict[str, object]] = [dict(problem) for problem in problems]
        super().__init__(f"cannot use component {component!r}: {'; '.join(map(_located, self.problems))}")


def _located(problem: Mapping[str, object]) -> str:
    argument = f"argument {problem['argument']!r} " if problem["argument"] else ""
    return f"{problem['file']}:{problem['line']}: {argument}{problem['problem']}, {problem['advice']}"


class ComponentArgumentError(InvalidInputError):
    """The arguments given do not fit the component."""

    def __init__(self, component: str, argument: str, problem: str) -> None:
        """Name the argument as it was given; ``problem`` is the end of a sentence that begins with it."""
        self.component = component
        self.argument = argument
        self.problem = problem
        super().__init__(f"component {component!r}: argument {argument!r} {problem}")


class ComponentHelpRequested(InvalidInputError):
    """The arguments ask for help: nothing was built. A command line prints ``usage``."""

    def __init__(self, component: str, usage: str) -> None:
        """Carry the text that explains the component's arguments."""
        self.component = component
        self.usage = usage
        super().__init__(f"help was asked for instead of running component {component!r}; print `usage`")


class InvalidFunctionError(InvalidInputError):
    """A function cannot run as an app; all reasons at once."""

    def __init__(self, function: str, problems: Iterable[str]) -> None:
        """Take problems as ``file:line: what is wrong; what to do``."""
        self.function = function
        self.problems: list[str] = list(problems)
        super().__init__(f"cannot run function {function!r} as an app: {'; '.join(self.problems)}")


class FunctionArgumentError(InvalidInputError):
    """The arguments given do not fit the function, or cannot travel to where it runs."""

    def __init__(self, function: str, problem: str, argument: str | None = None) -> None:
        """Name the argument where it is one argument's fault."""
        self.function = function
        self.argument = argument
        super().__init__(f"cannot call function {function!r}: {problem}")


class NotFoundError(TorchXError, LookupError):
    """Nothing of that name exists."""


class UnknownSchedulerException(NotFoundError, ValueError):
    """No scheduler of that name is registered."""

    def __init__(self, scheduler_backend: str, known: Iterable[str] = ()) -> None:
        """Name the closest of the known schedulers."""
        self.scheduler = scheduler_backend
        self.known: list[str] = sorted(known)
        super().__init__(
            f"unknown scheduler {scheduler_backend!r}; known: {', '.join(self.known)}"
            + did_you_mean(scheduler_backend, self.known)
        )


class UnknownAppException(NotFoundError):
    """The scheduler has no such app: never submitted, deleted, or purged."""

    def __init__(self, app_handle: str) -> None:
        """Quote the handle."""
        self.app_handle = app_handle
        super().__init__(f"unknown app {app_handle}; it was never submitted there, or its record was deleted")


class UnknownReplicaError(NotFoundError, KeyError):
    """The app has no such role, or the role has no such replica."""

    def __init__(self, app_handle: str, role: str, replica: int | None, known: Iterable[str]) -> None:
        """List what the app does have."""
        self.app_handle = app_handle
        self.role = role
        self.replica = replica
        self.known: list[str] = sorted(known)
        wanted = f"role {role!r}" if replica is None else f"replica {replica} of role {role!r}"
        super().__init__(
            f"{app_handle} has no {wanted}; known: {', '.join(self.known)}" + did_you_mean(role, self.known)
        )


class UnknownNamedResourceError(NotFoundError, KeyError):
    """No named resource has that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        """Name the closest, or all where none is close."""
        self.name = name
        self.known: list[str] = sorted(known)
        hint = did_you_mean(name, self.known) or f"; known: {', '.join(self.known)}"
        super().__init__(f"unknown named resource {name!r}{hint}")

    def __str__(self) -> str:
        """Return the message; a KeyError would show it in quotes."""
        return TorchXError.__str__(self)


class ComponentNotFoundException(NotFoundError):
    """No component of that name can be resolved."""

    def __init__(self, component: str, problem: str, known: Iterable[str] = ()) -> None:
        """Say where it was looked for; the closest of the known names is suggested."""
        self.component = component
        self.known: list[str] = sorted(known)
        super().__init__(f"unknown component {component!r}: {problem}{did_you_mean(component, self.known)}")


class SchedulerError(TorchXError):
    """The world outside this library failed."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        """``retryable``: the same call may succeed later and repeating it is safe."""
        self.retryable = retryable
        super().__init__(message)


class BackendAbsentError(SchedulerError):
    """What the scheduler needs is not on this host, or not for this user, and nobody has named another place.

    Whoever goes through all schedulers may pass over it: nobody runs apps there.
    """


class RecordUnavailableError(SchedulerError):
    """The files of an app cannot be reached just now, as while a file server is away; none is damaged."""

    def __init__(self, path: str, problem: str, *, retryable: bool = True) -> None:
        """Name the file and what the system says of it."""
        self.path = path
        advice = "the app is left alone, ask again" if retryable else "the app is left alone"
        super().__init__(f"cannot reach {path}: {problem}; {advice}", retryable=retryable)


class SubmitFailedError(SchedulerError):
    """The app was not submitted; everything started for it was taken back."""


class SubmitOutcomeUnknownError(SchedulerError):
    """The app may or may not have been submitted.

    Calling again with the same app id settles it.
    """

    def __init__(self, app_id: str, message: str) -> None:
        """Name the app; such an error is always retryable, with the same ``app_id``."""
        self.app_id = app_id
        super().__init__(
            f"cannot tell whether app {app_id!r} was submitted: {message};"
            " call again with the same app id to settle it",
            retryable=True,
        )


class WaitTimeoutError(TorchXError, TimeoutError):
    """The app did not become terminal in the time given; it goes on running."""

    def __init__(self, app_handle: str, timeout_s: float, state: str) -> None:
        """Say how long was waited and the state seen last."""
        self.app_handle = app_handle
        self.timeout_s = timeout_s
        self.state = state
        super().__init__(f"{app_handle} is {state} after waiting {timeout_s:g} s; it goes on running")


class AppStatusError(TorchXError):
    """The app ended otherwise than SUCCEEDED; ``status`` has the whole story."""

    def __init__(self, status: AppStatus, *args: object) -> None:
        """Keep TorchX's constructor: the status first, then the message."""
        self.status = status
        super().__init__(*args)


class FunctionRaisedError(AppStatusError):
    """The function that an app ran raised: in words, because the exception itself stays where it was."""

    def __init__(self, status: AppStatus, message: str, *, exception: str, traceback: str) -> None:
        """Keep the exception as its traceback ends with it, ``ValueError: no data``, and all of that."""
        self.exception = exception
        self.traceback = traceback
        super().__init__(status, message)


class StoredStateError(TorchXError):
    """A record on disk cannot be used."""


class CorruptRecordError(StoredStateError):
    """A record is torn or is not what it should be."""

    def __init__(self, path: str, problem: str, app_handle: str = "") -> None:
        """Name the file, what is wrong with it, and the app if it can be forgotten."""
        self.path = path
        self.app_handle = app_handle
        advice = f"; to forget the app: torchx-core delete --force {app_handle}" if app_handle else ""
        super().__init__(f"corrupt record {path}: {problem}{advice}")


class NewerRecordError(StoredStateError):
    """A record was written by a newer version of this library."""

    def __init__(self, path: str, version: int, supported: int) -> None:
        """Give both versions."""
        self.path = path
        self.version = version
        self.supported = supported
        super().__init__(
            f"{path} has format {version}, this library reads up to {supported}; upgrade torchx-core"
        )
