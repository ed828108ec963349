"""Errors on their way from the login node: the same class, message and facts arrive."""

from __future__ import annotations

from typing import cast

from torchx_core import errors
from torchx_core.errors import SchedulerError, TorchXError
from torchx_core.supervisor.records import Json

__all__ = ["dump_error", "load_error"]


def dump_error(error: Exception) -> Json:
    """Return the error as plain JSON values.

    A class of a scheduler's own travels as the public one that it is; what this library did not raise on
    purpose as a SchedulerError that names it.
    """
    if not isinstance(error, TorchXError):
        error = SchedulerError(f"on the login node: {type(error).__name__}: {error}")
    public = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in errors.__all__)
    return {**error.to_json(), "type": public}


def load_error(data: Json) -> TorchXError:
    """Return the error that `dump_error` was given.

    Raises:
        ValueError: It is none.
    """
    name = str(data["type"])
    if name not in errors.__all__:
        raise ValueError(f"not an error of ours: {name!r}")
    facts = {key: value for key, value in data.items() if key not in {"type", "message"}}
    cls = cast("type[TorchXError]", getattr(errors, name))
    error = cls.__new__(cls, str(data["message"]))
    vars(error).update(facts)
    return error
