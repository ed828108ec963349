"""Built-in components for distributed programs."""

from __future__ import annotations

import warnings
from pathlib import PurePath
from typing import Final

from torchx_core.components.image import IMAGE
from torchx_core.components.topology import Topology, parse_topology
from torchx_core.errors import InvalidInputError
from torchx_core.specs import AppDef, Role, macros, parse_mounts, resource

__all__ = ["ddp", "spmd", "torchrun"]

_PORT: Final = 29500
_DEBUG_ENV: Final = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "NCCL_DESYNC_DEBUG": "1",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    "TORCH_SHOW_CPP_STACKTRACES": "1",
}
_MEET: Final = """\
app=$1 replica=$2 port=$3 conf=$4
shift 4
host=${RANK0_ENV:-localhost}
if [ "$host" = localhost ] && [ "$port" = DEFAULT_PORT ]; then
    sum=$(printf %s "$app $TORCHX_ATTEMPT" | cksum)
    port=$((20000 + ${sum%% *} % 10000))
fi
exec torchrun --rdzv_endpoint "$host:$port" --rdzv_conf "is_host=$((replica == 0))$conf" "$@"
"""
"""What each of several nodes runs, because only there the host of replica 0 is known.

On ``localhost`` all replicas of all apps share one host, so the default port stands for one that follows
from the app id and the attempt: the same for every replica, another one for every other app. Replica 0 alone
serves the rendezvous (``is_host``): if another program has the port, it fails with that reason, where
torchrun by itself would join whatever listens there. What follows is passed on as it is: nothing is quoted.
"""


def torchrun(  # noqa: PLR0913  # TorchX's signature
    *script_args: str,
    script: str | None = None,
    m: str | None = None,
    image: str = IMAGE,
    name: str = "/",
    h: str | None = None,
    cpu: int = -1,
    gpu: int = 0,
    memMB: int = -1,  # noqa: N803  # TorchX's name
    j: str = "1x2",
    env: dict[str, str] | None = None,
    metadata: dict[str, str] | None = None,
    max_retries: int = 0,
    rdzv_port: int = _PORT,
    rdzv_backend: str = "c10d",
    rdzv_conf: str | None = None,
    mounts: list[str] | None = None,
    debug: bool = False,
    tee: int = 3,
) -> AppDef:
    """Run a PyTorch program in several processes, on one or several nodes, with torchrun.

    Each node is a replica that runs torchrun. On one node the processes meet on a free port of their own;
    several nodes meet at replica 0, on rdzv_port.

    Args:
        script_args: arguments of the program
        script: the program, a file in the image; either this or -m
        m: the program, as a Python module
        image: image to run in, where the scheduler runs images
        name: EXPERIMENT/RUN, EXPERIMENT/, /RUN or RUN; the run is called like the program unless given
        h: named resource of each node; replaces cpu, gpu and memMB
        cpu: cores of each node; -1 for no limit
        gpu: GPUs of each node
        memMB: memory of each node in MB; -1 for no limit
        j: [[MIN:]NODESx]PROCESSES, for example 2x4 for 2 nodes with 4 processes each, 1:2x4 for 1 to 2 nodes;
            a number alone is the processes on one node, or with -h the nodes, each with a process per GPU
        env: environment variables, for example A=1,B=2
        metadata: metadata for the scheduler, for example A=1,B=2
        max_retries: how often to start again after a failure
        rdzv_port: port on which replica 0 serves the rendezvous of several nodes; where all nodes are one
            host, the default stands for a port that follows from the app id
        rdzv_backend: what serves the rendezvous of several nodes
        rdzv_conf: more configuration of the rendezvous, for example join_timeout=600,timeout=600
        mounts: mounts, for example type=bind,src=/host,dst=/job,readonly
        debug: set environment variables that make PyTorch tell more
        tee: output that torchrun prints besides writing it to files; 0 none, 1 stdout, 2 stderr, 3 both
    """
    program, options = _program(script, m)
    topology = parse_topology(j, host=h)
    experiment, run = _experiment_and_run(name, program)
    role = Role(
        name=program,
        image=image,
        min_replicas=topology.min_nodes,
        num_replicas=topology.max_nodes,
        resource=resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
        env=_environment(env, experiment, run, debug=debug),
        port_map={"c10d": rdzv_port},
        max_retries=max_retries,
        mounts=parse_mounts(mounts or []),
    )
    words = ["--tee", str(tee), "--role", "", *options, *script_args]
    if topology.max_nodes == 1:
        role.entrypoint, role.args = "torchrun", [*_alone(rdzv_conf), *_shape(topology), *words]
    else:
        backend = ["--rdzv_backend", rdzv_backend]
        if rdzv_backend == "static":
            backend += ["--node_rank", macros.replica_id]
        role.entrypoint = "sh"
        role.args = [*_together(rdzv_port, rdzv_conf), *backend, *_shape(topology), *words]
    return AppDef(name=run, roles=[role], metadata=dict(metadata or {}))


def ddp(  # noqa: PLR0913  # TorchX's signature
    *script_args: str,
    script: str | None = None,
    m: str | None = None,
    image: str = IMAGE,
    name: str = "/",
    h: str | None = None,
    cpu: int = -1,
    gpu: int = 0,
    memMB: int = -1,  # noqa: N803  # TorchX's name
    j: str = "1x2",
    env: dict[str, str] | None = None,
    metadata: dict[str, str] | None = None,
    max_retries: int = 0,
    rdzv_port: int = _PORT,
    rdzv_backend: str = "c10d",
    rdzv_conf: str | None = None,
    mounts: list[str] | None = None,
    debug: bool = False,
    tee: int = 3,
) -> AppDef:
    """Do what dist.torchrun does, under an old name (deprecated).

    A number alone for -j always means the processes on one node, also with -h. For everything else see
    dist.torchrun.
    """
    _deprecated("dist.ddp")
    return torchrun(
        *script_args,
        script=script,
        m=m,
        image=image,
        name=name,
        h=h,
        cpu=cpu,
        gpu=gpu,
        memMB=memMB,
        j=f"1x{j}" if j.isdecimal() else j,
        env=env,
        metadata=metadata,
        max_retries=max_retries,
        rdzv_port=rdzv_port,
        rdzv_backend=rdzv_backend,
        rdzv_conf=rdzv_conf,
        mounts=mounts,
        debug=debug,
        tee=tee,
    )


def spmd(  # noqa: PLR0913  # TorchX's signature
    *args: str,
    script: str | None = None,
    m: str | None = None,
    image: str = IMAGE,
    name: str = "/",
    h: str = "gpu.small",
    j: str = "1x1",
    env: dict[str, str] | None = None,
    metadata: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
    debug: bool = False,
) -> AppDef:
    """Do what dist.torchrun does, under an old name (deprecated).

    Each node is a named resource, gpu.small unless -h says otherwise. For everything else see dist.torchrun.
    """
    _deprecated("dist.spmd")
    return torchrun(
        *args,
        script=script,
        m=m,
        image=image,
        name=name,
        h=h,
        j=j,
        env=env,
        metadata=metadata,
        max_retries=max_retries,
        mounts=mounts,
        debug=debug,
    )


def _deprecated(name: str) -> None:
    warnings.warn(f"{name} is deprecated; use dist.torchrun", UserWarning, stacklevel=3)


def _program(script: str | None, m: str | None) -> tuple[str, list[str]]:
    """Return the program's short name, and the words that name it to torchrun."""
    if script and not m:
        return PurePath(script).stem, [script]
    if m and not script:
        return m.rpartition(".")[2], ["-m", m]
    raise InvalidInputError(f"give either --script or -m: script={script!r}, m={m!r}")


def _experiment_and_run(name: str, program: str) -> tuple[str, str]:
    experiment, slash, run = name.partition("/")
    if not slash:
        experiment, run = "", name
    return experiment or "default-experiment", run or program


def _environment(env: dict[str, str] | None, experiment: str, run: str, *, debug: bool) -> dict[str, str]:
    return {
        **(env or {}),
        "TORCHX_TRACKING_EXPERIMENT_NAME": experiment,
        "TORCHX_TRACKING_RUN_NAME": run,
        **(_DEBUG_ENV if debug else {}),
    }


def _shape(topology: Topology) -> list[str]:
    processes = str(topology.processes)
    return ["--rdzv_id", macros.app_id, "--nnodes", topology.nodes, "--nproc_per_node", processes]


def _alone(conf: str | None) -> list[str]:
    """Return how one node meets itself: on a free port, which torchrun finds."""
    words = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]
    return [*words, "--rdzv_conf", conf] if conf else words


def _together(port: int, conf: str | None) -> list[str]:
    """Return the shell's words for several nodes: its program, then what that takes itself."""
    shell = _MEET.replace("$", "$$")  # macros are filled in before the shell reads it
    shell = shell.replace("RANK0_ENV", macros.rank0_env).replace("DEFAULT_PORT", str(_PORT))
    return ["-c", shell, "torchrun", macros.app_id, macros.replica_id, str(port), f",{conf}" if conf else ""]
