"""What ``make demo SCHEDULER=local_docker`` needs: a Docker engine, and an image to learn the digits in.

Nothing is pulled: the image is made of this machine's Python, of PyTorch as it is installed here, and of the
libraries and the shell that they need.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, cast

from torchx_core import get_runner
from torchx_core.errors import SchedulerError
from torchx_core.schedulers import ListAppResponse
from torchx_core.schedulers.docker.endpoint import find_endpoint
from torchx_core.schedulers.docker.sdk import sdk_client
from torchx_core.schedulers.workspaces.build_context import archive

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))  # the tests' engine serves here as well

from docker_engine import DockerEngine, free_number, why_no_engine  # noqa: E402  # found by the line above

REQUIREMENTS = ("scikit-learn", "torch", "torchx-core")
PROGRAMS = ("sh", "cat", "chmod", "date", "kill", "mkdir", "mv", "rm", "sleep")
NOT_NEEDED = {"__pycache__", "ensurepip", "idlelib", "include", "site-packages", "test", "tests", "tkinter"}


@contextmanager
def docker_engine(image: str) -> Iterator[str]:
    """Yield the address of an engine that has the image; what is made for it is gone afterwards.

    Raises:
        SchedulerError: No engine answers, and none can be started here.
    """
    with _engine() as url:
        client = cast("Any", sdk_client(find_endpoint(url, os.environ)))
        print("making the image: this machine's Python and PyTorch", flush=True)
        stream = archive(sorted(_contents().items()), {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"})
        client.import_image_from_stream(stream, repository=image, changes=_settings())
        before = {app.app_id for app in _apps(url)}
        try:
            yield url
        finally:
            _forget(url, before)
            client.remove_image(image, force=True)
            client.close()


@contextmanager
def _engine() -> Iterator[str]:
    """Yield the address of the engine that answers, or of one of our own."""
    endpoint = find_endpoint(None, os.environ)
    try:
        sdk_client(endpoint).close()
    except SchedulerError as err:
        if reason := why_no_engine():
            raise SchedulerError(f"{err}; none can be started either: {reason}") from err
    else:
        yield endpoint.url
        return
    folder = Path(tempfile.mkdtemp(prefix="demo-"))
    engine = DockerEngine(folder / "engine", free_number())
    try:
        print("no Docker engine answers: starting one", flush=True)
        engine.start()
        yield engine.url
    finally:
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _apps(url: str) -> list[ListAppResponse]:
    with get_runner(docker_host=url) as runner:
        return runner.list("local_docker")


def _forget(url: str, known: set[str]) -> None:
    """Remove the apps that the DAG has left behind, finished or not; those known are somebody else's."""
    left = [app for app in _apps(url) if app.name.startswith("digits-") and app.app_id not in known]
    with get_runner(docker_host=url) as runner:
        for app in left:
            runner.cancel(app.app_handle, grace_s=0, reason="the demo is over")
            runner.wait(app.app_handle)
            runner.delete(app.app_handle)


# --- the image


def _settings() -> list[str]:
    python = sysconfig.get_path("scripts")
    return [
        f"ENV PATH={python}:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 LD_LIBRARY_PATH={sys.base_prefix}/lib"
    ]


def _contents() -> dict[str, str]:
    """Return the image's files: the path there, and what of this machine it is."""
    files = {*_python(), *_packages(), *_below(ROOT / "torchx_core"), *_below(ROOT / "dags" / "digits")}
    programs = {
        f"bin/{name}": os.path.realpath(shutil.which(name) or name) for name in PROGRAMS if shutil.which(name)
    }
    libraries = _libraries(
        [*programs.values(), sys.executable, *(str(file) for file in files if ".so" in file.suffixes)]
    )
    plain = {str(path).lstrip("/"): str(path) for path in files}
    needed = {path.lstrip("/"): os.path.realpath(path) for path in libraries}
    return {**needed, **plain, **programs, "tmp": "/tmp"}  # noqa: S108  # the folder itself, for its permissions


def _python() -> Iterator[Path]:
    """Yield the interpreter, its standard library, and what makes the environment one."""
    environment = Path(sys.executable)
    yield from (environment, Path(sys.prefix, "pyvenv.cfg"))
    while environment.is_symlink():
        environment = environment.parent / environment.readlink()
        yield environment
    yield from Path(sys.base_prefix, "lib").glob("libpython*.so*")
    yield from _below(Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix})))


def _packages() -> Iterator[Path]:
    """Yield the files of what the programs import, and of all that needs."""
    found: dict[str, Distribution] = {}
    todo = list(REQUIREMENTS)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # needed on another platform only
        todo += [re.split(r"[^\w.-]", r)[0] for r in found[name].requires or () if "extra ==" not in r]
    for package in found.values():
        needed = [file for file in package.files or () if not NOT_NEEDED.intersection(file.parts)]
        paths = [Path(os.path.normpath(str(file.locate()))) for file in needed]
        yield from (path for path in paths if path.is_file())


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not NOT_NEEDED.intersection(path.relative_to(folder).parts):
            yield path


def _libraries(binaries: Iterable[str]) -> set[str]:
    """Return the shared libraries of this machine that the binaries are linked with."""
    told = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    return {os.path.normpath(path) for path in re.findall(r"^\s(?:\S+ => )?(/\S+) \(0x", told, re.MULTILINE)}
