"""Built-in components that run one common program; for trying things out, and as glue between others."""

from __future__ import annotations

from importlib.resources import files

from torchx_core.components.image import IMAGE
from torchx_core.errors import InvalidInputError
from torchx_core.specs import NONE, AppDef, Resource, Role, parse_mounts, resource
from torchx_core.specs.resource import null_resource

__all__ = ["binary", "booth", "copy", "echo", "python", "sh", "touch"]


def echo(msg: str = "hello world", image: str = IMAGE, num_replicas: int = 1) -> AppDef:
    """Print a message.

    Args:
        msg: the message
        image: image to run in, where the scheduler runs images
        num_replicas: how many replicas print it
    """
    return _app("echo", image, "echo", [msg], num_replicas=num_replicas)


def touch(file: str, image: str = IMAGE) -> AppDef:
    """Create an empty file, or set the time of one that exists.

    Args:
        file: the file
        image: image to run in, where the scheduler runs images
    """
    return _app("touch", image, "touch", [file])


def sh(  # noqa: PLR0913  # TorchX's signature
    *args: str,
    image: str = IMAGE,
    num_replicas: int = 1,
    cpu: int = -1,
    gpu: int = 0,
    memMB: int = -1,  # noqa: N803  # TorchX's name
    h: str | None = None,
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
    entrypoint: str | None = None,
) -> AppDef:
    """Run one command by a shell, so that its built-in commands work; the words mean what they say.

    Nothing in them is expanded or split. For variables, pipes and the like: utils.sh sh -c 'echo $HOME | wc'.

    Args:
        args: the command and its arguments
        image: image to run in, where the scheduler runs images
        num_replicas: how many replicas run it
        cpu: cores of each replica; -1 for no limit
        gpu: GPUs of each replica
        memMB: memory of each replica in MB; -1 for no limit
        h: named resource of each replica; replaces cpu, gpu and memMB
        env: environment variables, for example A=1,B=2
        max_retries: how often to start again after a failure
        mounts: mounts, for example type=bind,src=/host,dst=/job,readonly
        entrypoint: program to run with the words as arguments, in place of the shell
    """
    program, words = ("sh", ["-c", '"$@"', "sh", *args]) if entrypoint is None else (entrypoint, list(args))
    return _app(
        "sh",
        image,
        program,
        words,
        num_replicas=num_replicas,
        needs=resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
        env=dict(env or {}),
        max_retries=max_retries,
        mounts=mounts,
    )


def python(  # noqa: PLR0913  # TorchX's signature
    *args: str,
    m: str | None = None,
    c: str | None = None,
    script: str | None = None,
    image: str = IMAGE,
    name: str = "torchx_utils_python",
    cpu: int = -1,
    gpu: int = 0,
    memMB: int = -1,  # noqa: N803  # TorchX's name
    h: str | None = None,
    num_replicas: int = 1,
    mounts: list[str] | None = None,
) -> AppDef:
    """Run Python with a module, a program text or a script.

    Args:
        args: arguments of the program
        m: module to run
        c: program text to run
        script: script to run
        image: image to run in, where the scheduler runs images
        name: name of the app
        cpu: cores of each replica; -1 for no limit
        gpu: GPUs of each replica
        memMB: memory of each replica in MB; -1 for no limit
        h: named resource of each replica; replaces cpu, gpu and memMB
        num_replicas: how many replicas run it
        mounts: mounts, for example type=bind,src=/host,dst=/job,readonly
    """
    programs = {"-m": m, "-c": c, "--script": script}
    given = [(flag, text) for flag, text in programs.items() if text is not None]
    if len(given) != 1:
        raise InvalidInputError(f"give exactly one of -m, -c and --script: {dict(given)}")
    flag, text = given[0]
    return _app(
        name,
        image,
        "python",
        [*([] if flag == "--script" else [flag]), text, *args],
        role_name="python",
        num_replicas=num_replicas,
        needs=resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
        env={"HYDRA_MAIN_MODULE": m} if m else None,  # hydra.main cannot tell it when it runs by -m
        mounts=mounts,
    )


def binary(
    *args: str,
    entrypoint: str,
    name: str = "torchx_utils_binary",
    num_replicas: int = 1,
    cpu: int = -1,
    gpu: int = 0,
    memMB: int = -1,  # noqa: N803  # TorchX's name
    h: str | None = None,
) -> AppDef:
    """Run a program, without an image.

    Args:
        args: arguments of the program
        entrypoint: the program
        name: name of the app
        num_replicas: how many replicas run it
        cpu: cores of each replica; -1 for no limit
        gpu: GPUs of each replica
        memMB: memory of each replica in MB; -1 for no limit
        h: named resource of each replica; replaces cpu, gpu and memMB
    """
    needs = resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h)
    return _app(
        name, NONE, entrypoint, list(args), role_name="binary", num_replicas=num_replicas, needs=needs
    )


def copy(src: str, dst: str, image: str = IMAGE, mounts: list[str] | None = None) -> AppDef:
    """Copy one file; the destination's directory is made.

    A URL with a scheme other than file needs fsspec in the image.

    Args:
        src: path or URL of the file
        dst: path or URL of the copy
        image: image to run in, where the scheduler runs images; it needs Python and nothing else
        mounts: mounts, for example type=bind,src=/host,dst=/job,readonly
    """
    words = ["-c", _program("copy_file"), "--src", src, "--dst", dst]
    return _app("torchx-utils-copy", image, "python", words, mounts=mounts)


def booth(
    x1: float,
    x2: float,
    trial_idx: int = 0,
    tracker_base: str = "/tmp/torchx-util-booth",  # noqa: S108  # TorchX's default
    image: str = IMAGE,
) -> AppDef:
    """Compute Booth's function, (x1 + 2*x2 - 7)^2 + (2*x1 + x2 - 5)^2, to try a search with.

    The value is the app's result, and is written as JSON to TRACKER_BASE/TRIAL_IDX.

    Args:
        x1: the first number
        x2: the second number
        trial_idx: number of the trial in a search
        tracker_base: path or URL of the directory for results
        image: image to run in, where the scheduler runs images; it needs Python and nothing else
    """
    words = ["-c", _program("booth"), "--x1", str(x1), "--x2", str(x2)]
    words += ["--trial_idx", str(trial_idx), "--tracker_base", tracker_base]
    return _app("torchx-utils-booth", image, "python", words)


def _app(  # noqa: PLR0913  # the fields of a role
    name: str,
    image: str,
    entrypoint: str,
    args: list[str],
    *,
    role_name: str | None = None,
    num_replicas: int = 1,
    needs: Resource | None = None,
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
) -> AppDef:
    role = Role(
        name=role_name or name,
        image=image,
        entrypoint=entrypoint,
        args=args,
        env=env or {},
        num_replicas=num_replicas,
        max_retries=max_retries,
        resource=needs or null_resource(),
        mounts=parse_mounts(mounts or []),
    )
    return AppDef(name=name, roles=[role])


def _program(name: str) -> str:
    """Return the text of a program of ours, to run with ``python -c``: then no image needs this package."""
    return files("torchx_core.components.programs").joinpath(f"{name}.py").read_text("utf-8")
