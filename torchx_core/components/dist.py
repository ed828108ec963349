"""Built-in components for distributed programs."""

from __future__ import annotations

import warnings
from importlib.resources import files
from typing import Final, NamedTuple

from torchx_core.components.image import IMAGE
from torchx_core.components.structured_arg import StructuredNameArgument, program_of
from torchx_core.components.topology import Topology, parse_topology
from torchx_core.components.topology import parse_nnodes as parse_nnodes  # noqa: PLC0414  # TorchX has it here
from torchx_core.errors import InvalidInputError
from torchx_core.specs import AppDef, Role, macros, parse_mounts, resource

__all__ = ["accelerate", "ddp", "spmd", "torchrun"]

NO_PYTHON: Final = "--no-python"
"""In the place of a script: torchrun starts the words that follow as they are."""
_PORT: Final = 29500
_PRECISIONS: Final = ("no", "fp16", "bf16", "fp8")
_DEBUG_ENV: Final = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "NCCL_DESYNC_DEBUG": "1",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    "TORCH_SHOW_CPP_STACKTRACES": "1",
}
_RANK0: Final = """\
app=$1 replica=$2 port=$3 conf=$4
shift 4
host=${RANK0_ENV:-localhost}
if [ "$host" = localhost ] && [ "$port" = DEFAULT_PORT ]; then
    port=$TORCHX_RANK0_PORT
    if [ -z "$port" ]; then
        sum=$(printf %s "$app $TORCHX_ATTEMPT" | cksum)
        port=$((20000 + ${sum%% *} % 10000))
    fi
fi
"""
_MEET: Final = """\
exec torchrun --rdzv_endpoint "$host:$port" --rdzv_conf "is_host=$((replica == 0))$conf" "$@"
"""
"""What each of several nodes runs, because only there the host of replica 0 is known.

On ``localhost`` all replicas of all apps share one host, so the default port stands for the one that the
scheduler holds for them. Where none is held (by TorchX's own scheduler) it follows from the app id and the
attempt: the same for every replica, another one for most other apps. Replica 0 alone serves the rendezvous
(``is_host``): if another program has the port, it fails with that reason, where torchrun by itself would join
whatever listens there. What follows is passed on as it is: nothing is quoted.
"""
_RANKS: Final = """\
export TORCHX_RANK_PROGRAM="$1"
shift
path=$(command -v torchrun) first= second= python=
[ "$path" ] && { read -r first; read -r second; } <"$path"
case $first in "#!"*python*) python=${first#"#!"} ;; esac
case $second in "'''exec'"*) python=${path%/*}/python ;; esac
if [ "$python" ] && [ "$TORCHELASTIC_ERROR_FILE" ]; then
    export TORCHX_FIRST_ERROR_FILE="$TORCHELASTIC_ERROR_FILE"
    export TORCHELASTIC_ERROR_FILE="${TORCHX_FIRST_ERROR_FILE%/*}/agent.${TORCHX_FIRST_ERROR_FILE##*/}"
fi
run="import os; exec(os.environ.pop('TORCHX_RANK_PROGRAM'))" found= last=
for word do
    shift
    if [ "$found$last" = --nproc_per_node ] && [ "$python" ] && [ "$word" != 1 ]; then
        export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
    fi
    last=$word
    if [ "$found" ] || [ "$word" != -- ]; then set -- "$@" "$word"; continue; fi
    found=1
    [ "$python" ] && set -- "$@" --no-python ${PYTHON_EXEC:-$python} -u "-c$run"
done
"""
_RUN: Final = """\
exec torchrun "$@"
"""
"""What has torchrun start each rank's program through ours, whose text comes first among the words.

The first ``--`` stands between torchrun's options and the program. The Python is the one that torchrun itself
would start, which the first line of torchrun names; the second, where pip writes a shell's line there. Where
neither does, torchrun is nobody's that we know, and starts the program itself.

Where there are several ranks torchrun gives each one thread, unless the environment says how many, and warns
of it in four lines. What it would do is done before.

The ranks get the scheduler's error file, for the first of them that fails. What torchrun would copy there is
the error of the lowest rank that failed within the same second, and, once it is told to end, only that.
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
            host, the default stands for a free one that the app has to itself
        rdzv_backend: what serves the rendezvous of several nodes
        rdzv_conf: more configuration of the rendezvous, for example join_timeout=600,timeout=600
        mounts: mounts, for example type=bind,src=/host,dst=/job,readonly
        debug: set environment variables that make PyTorch tell more
        tee: output that torchrun prints besides writing it to files; 0 none, 1 stdout, 2 stderr, 3 both
    """
    names = StructuredNameArgument.parse_from(name, m, script)
    program = program_of(script, m)
    topology = parse_topology(j, host=h)
    role = Role(
        name=program,
        image=image,
        min_replicas=topology.min_nodes,
        num_replicas=topology.max_nodes,
        resource=resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
        env=_environment(env, names, debug=debug),
        port_map={"c10d": rdzv_port},
        max_retries=max_retries,
        mounts=parse_mounts(mounts or []),
    )
    options = [*_shape(topology), "--tee", str(tee), "--role", ""]
    start = _start_ranks([*(["-m", m] if m else [script or ""]), *script_args])
    if topology.max_nodes > 1:
        backend = ["--rdzv_backend", rdzv_backend]
        if rdzv_backend == "static":
            backend += ["--node_rank", macros.replica_id]
        role.entrypoint, role.args = _together(rdzv_port, rdzv_conf, [*backend, *options], start)
    else:
        role.entrypoint, role.args = _alone([*_meet_alone(rdzv_conf), *options], start)
    return AppDef(name=names.run_name, roles=[role], metadata=dict(metadata or {}))


def accelerate(  # noqa: PLR0913  # as torchrun
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
    mounts: list[str] | None = None,
    mixed_precision: str = "no",
    gradient_accumulation_steps: int = 1,
    use_cpu: bool = False,
) -> AppDef:
    """Run a program that uses Hugging Face's accelerate, on one or several nodes.

    torchrun starts the processes, as it does below accelerate launch, and the program finds its options in
    the same variables. What has no argument here is set by --env, for example ACCELERATE_USE_FSDP=true.

    Args:
        script_args: arguments of the program
        script: path of the program; give either script or m
        m: Python module to run
        image: image to run in
        name: the app's name, as [experiment][/run]; without a run, the program's name
        h: named resource of each node; the figures that follow are ignored then
        cpu: cores of each node; -1 for "do not care"
        gpu: GPUs of each node
        memMB: memory of each node in MB; -1 for "do not care"
        j: nodes and processes per node, as [minimum:]nodes x processes, or the nodes alone
        env: environment variables, for example A=1,B=2
        metadata: metadata for the scheduler, for example A=1,B=2
        max_retries: how often to start again after a failure
        mounts: mounts, for example type=bind,src=/host,dst=/job,readonly
        mixed_precision: no, fp16, bf16 or fp8
        gradient_accumulation_steps: batches for one step of the optimizer
        use_cpu: use no GPU, even if there are some

    Raises:
        InvalidInputError: There is no such precision.
    """
    if mixed_precision not in _PRECISIONS:
        known = ", ".join(_PRECISIONS)
        raise InvalidInputError(f"mixed_precision must be one of {known}: {mixed_precision!r}")
    options = {
        "ACCELERATE_MIXED_PRECISION": mixed_precision,
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": str(gradient_accumulation_steps),
        **({"ACCELERATE_USE_CPU": "true"} if use_cpu else {}),
    }
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
        j=j,
        env={**options, **(env or {})},
        metadata=metadata,
        max_retries=max_retries,
        mounts=mounts,
    )


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


def _environment(env: dict[str, str] | None, names: StructuredNameArgument, *, debug: bool) -> dict[str, str]:
    return {
        **(env or {}),
        "TORCHX_TRACKING_EXPERIMENT_NAME": names.experiment_name,
        "TORCHX_TRACKING_RUN_NAME": names.run_name,
        **(_DEBUG_ENV if debug else {}),
    }


def _shape(topology: Topology) -> list[str]:
    processes = str(topology.processes)
    return ["--rdzv_id", macros.app_id, "--nnodes", topology.nodes, "--nproc_per_node", processes]


class _Start(NamedTuple):
    """How torchrun starts each rank."""

    shell: str
    """What the shell does before; nothing where torchrun needs none."""
    program: list[str]
    """What the shell takes for that."""
    words: list[str]
    """What follows torchrun's options."""


def _start_ranks(words: list[str]) -> _Start:
    """Return how torchrun starts the program's words: through ours, unless they say that it is no Python."""
    if words[0] == NO_PYTHON:
        return _Start("", [], words)
    text = files("torchx_core.components.programs").joinpath("rank.py").read_text("utf-8")
    return _Start(_RANKS, [text.replace("$", "$$")], ["--", *words])


def _alone(options: list[str], start: _Start) -> tuple[str, list[str]]:
    if not start.shell:
        return "torchrun", [*options, *start.words]
    return "sh", ["-c", _shell(start.shell + _RUN), "torchrun", *start.program, *options, *start.words]


def _meet_alone(conf: str | None) -> list[str]:
    """Return how one node meets itself: on a free port, which torchrun finds."""
    words = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]
    return [*words, "--rdzv_conf", conf] if conf else words


def _together(port: int, conf: str | None, options: list[str], start: _Start) -> tuple[str, list[str]]:
    shell = _shell(_RANK0 + start.shell + _MEET)
    meeting = [macros.app_id, macros.replica_id, str(port), f",{conf}" if conf else ""]
    return "sh", ["-c", shell, "torchrun", *meeting, *start.program, *options, *start.words]


def _shell(text: str) -> str:
    """Return the text as an argument: macros are filled in before the shell reads it."""
    text = text.replace("$", "$$")
    return text.replace("RANK0_ENV", macros.rank0_env).replace("DEFAULT_PORT", str(_PORT))
