"""Makes an app of a function and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torchx_core.components import dist
from torchx_core.errors import InvalidInputError
from torchx_core.functions.arguments import command_line
from torchx_core.functions.source import FunctionSource, read_function
from torchx_core.specs import AppDef, Resource, Role, macros
from torchx_core.specs import resource as named_resource
from torchx_core.specs.mounts import Mount
from torchx_core.specs.resource import null_resource

__all__ = ["function_app"]


def function_app(  # noqa: PLR0913  (the fields of a role; all but the call are keywords)
    function: Callable[..., object] | FunctionSource,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    name: str = "",
    replicas: int = 1,
    nproc: int = 1,
    torchrun: bool = False,
    image: str = "",
    python: str = "python3",
    env: Mapping[str, str] | None = None,
    resource: Resource | str | None = None,
    mounts: Sequence[Mount] = (),
    max_retries: int = 0,
) -> AppDef:
    """Return an app whose replicas all run the function; what rank 0 returns is the app's result.

    Each process finds ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK`` and ``LOCAL_WORLD_SIZE`` in its environment,
    and rank 0's value is reported unless it is None. What the function raises is the failure's message, with
    its traceback; the exit code is then 1, and the function's own if it calls `sys.exit`.

    Args:
        function: A plain function, ``async`` or not, that needs nothing from around it: what it uses it takes
            as an argument, imports or defines inside. Its decorators stay here. Or what `read_function` has
            read of one, which works also where the function's file is not at hand any more.
        args: Its positional arguments: what JSON can hold. A tuple arrives as a list.
        kwargs: Its keyword arguments, likewise. The whole call may take 256 KiB.
        name: Of the app; the function's name unless given.
        replicas: How many.
        nproc: Processes of each replica; with more than one, torchrun starts them.
        torchrun: Start a single process by torchrun as well, so that ``torch.distributed`` finds the others.
        image: What to run in, where the scheduler runs images; it needs Python, and PyTorch for torchrun.
        python: The Python to run, in the image.
        env: Environment variables; macros are filled in here, and here only.
        resource: What each replica needs, or the name of a named resource.
        mounts: What to mount into each replica.
        max_retries: How often to start all again after a failure.

    Raises:
        InvalidFunctionError: The function cannot run elsewhere.
        FunctionArgumentError: The arguments do not fit it, are no plain data, or are too large.
        InvalidInputError: There are no replicas or processes.

    Example:
        >>> def add(a, b):
        ...     return a + b
        >>> function_app(add, [1], {"b": 2}, replicas=2).roles[0].num_replicas
        2
    """
    _check_count("replicas", replicas)
    _check_count("nproc", nproc)
    source = function if isinstance(function, FunctionSource) else read_function(function)
    words = command_line(python, source, args, kwargs or {})
    role = Role(
        name=source.name,
        image=image,
        num_replicas=replicas,
        env=dict(env or {}),
        max_retries=max_retries,
        resource=_resource(resource),
        mounts=list(mounts),
    )
    if torchrun or nproc > 1:
        _launch_by_torchrun(role, words, nproc)
    else:
        role.entrypoint, *role.args = words
        role.env = {**_ranks(replicas), **role.env}
    return AppDef(name=name or source.name, roles=[role])


def _check_count(what: str, count: int) -> None:
    if count < 1:
        raise InvalidInputError(f"{what} must be at least 1: {count}")


def _resource(given: Resource | str | None) -> Resource:
    if isinstance(given, str):
        return named_resource(h=given)
    return null_resource() if given is None else given


def _launch_by_torchrun(role: Role, words: Sequence[str], nproc: int) -> None:
    launcher = dist.torchrun(*words, script=dist.NO_PYTHON, j=f"{role.num_replicas}x{nproc}").roles[0]
    role.entrypoint, role.args, role.port_map = launcher.entrypoint, launcher.args, launcher.port_map


def _ranks(replicas: int) -> dict[str, str]:
    """Return what torchrun would set where each replica is one process."""
    return {
        "RANK": macros.replica_id,
        "WORLD_SIZE": str(replicas),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
    }
