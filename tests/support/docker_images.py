"""Images made on this machine, because none can be pulled: a shell of 2 MB, and this machine's own Python."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from importlib.util import cache_from_source
from pathlib import Path

import docker
from docker_engine import DockerEngine, free_number
from shared import SHARED_HOME

__all__ = [
    "PACKAGES",
    "PYTHON_IMAGE",
    "SHELL_IMAGE",
    "environment_volumes",
    "import_images",
    "stocked_engine",
]

SHELL_IMAGE = "torchx-test-shell:latest"
"""busybox and nothing else."""
PYTHON_IMAGE = "torchx-test-python:latest"
"""The Python that runs the tests, with its standard library, and the shell image's tools."""

PACKAGES = sysconfig.get_path("stdlib")
"""Where the Python image finds packages: it has none of its own."""

_ROOT = Path(__file__).parents[2]
_NOT_IN_THE_IMAGE = (_ROOT, "/usr/lib", "/usr/share/zoneinfo", "/etc/ssl")
_BUSYBOX = Path("/bin/busybox")
_PYTHON = Path(sys.base_prefix)
_STDLIB = Path(sysconfig.get_path("stdlib"))
_UNWANTED = {
    "__pycache__",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tkinter",
    "turtledemo",
}
_USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUPS = "root:x:0:\nnogroup:x:65534:\n"


def environment_volumes() -> list[str]:
    """Return the volumes by which the Python image has this checkout, and the tests' environment."""
    return [f"{path}:{path}:ro" for path in _NOT_IN_THE_IMAGE]


def import_images(client: docker.DockerClient) -> None:
    """Give the engine both images."""
    _import(client, SHELL_IMAGE, _shell_image(), ["ENV PATH=/bin"])
    path = f"ENV PATH={_PYTHON}/bin:/bin LD_LIBRARY_PATH={_PYTHON}/lib LANG=C.UTF-8"
    _import(client, PYTHON_IMAGE, _kept(_python_image), [path])


def _kept(image: Callable[[], bytes]) -> bytes:
    """Make the image, once for a whole test run: it is 100 MB, and takes seconds."""
    if (home := os.environ.get(SHARED_HOME)) is None:
        return image()
    kept = Path(home, "python-image.tar")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        made = kept.with_suffix(f".{os.getpid()}")  # another process may make one just now
        made.write_bytes(image())
        made.rename(kept)
    return kept.read_bytes()


def _import(client: docker.DockerClient, name: str, data: bytes, changes: list[str]) -> None:
    repository, tag = name.split(":")
    client.api.import_image_from_data(data, repository=repository, tag=tag, changes=changes)


def _shell_image() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add_shell(tar)
    return buffer.getvalue()


def _python_image() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add_shell(tar)
        binary = (_PYTHON / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}").resolve()
        files = [binary, *(_PYTHON / "lib").glob("libpython*.so*"), *_standard_library()]
        linked = _libraries(f for f in files if f == binary or ".so" in f.suffixes)
        for file in dict.fromkeys([*files, *linked]):
            tar.add(file.resolve(), arcname=str(file).lstrip("/"))
        for name in ("python3", "python"):
            _link(tar, f"{_PYTHON}/bin/{name}", str(binary))
    return buffer.getvalue()


def _standard_library() -> Iterator[Path]:
    for path in sorted(_STDLIB.rglob("*")):
        inside = path.relative_to(_STDLIB).parts
        if path.is_file() and not _UNWANTED.intersection(inside) and not inside[0].startswith("config-"):
            yield path
            compiled = Path(cache_from_source(path)) if path.suffix == ".py" else path
            if compiled != path and compiled.exists():  # to compile it takes each container 0.2 s
                yield compiled


def _libraries(binaries: Iterable[Path]) -> list[Path]:
    """Return the shared libraries that the binaries are linked with."""
    told = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    found = set(re.findall(r"^\s(?:\S+ => )?(/\S+) \(0x", told, re.MULTILINE))
    return sorted(Path(name) for name in found)


def _add_shell(tar: tarfile.TarFile) -> None:
    tar.add(_BUSYBOX, arcname="bin/busybox")
    applets = subprocess.run([_BUSYBOX, "--list"], capture_output=True, text=True, check=True)
    for applet in set(applets.stdout.split()) - {"busybox"}:
        _link(tar, f"bin/{applet}", "busybox")
    _text(tar, "etc/passwd", _USERS)
    _text(tar, "etc/group", _GROUPS)
    for name, mode in (("root", 0o700), ("tmp", 0o1777)):
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, mode
        tar.addfile(folder)


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name.lstrip("/"))
    link.type, link.linkname = tarfile.SYMTYPE, target
    tar.addfile(link)


def _text(tar: tarfile.TarFile, name: str, text: str) -> None:
    file = tarfile.TarInfo(name)
    file.size = len(text)
    tar.addfile(file, io.BytesIO(text.encode()))


@contextmanager
def stocked_engine(root: Path) -> Iterator[DockerEngine]:
    """Yield an engine of its own that keeps everything in the folder and has the images of the tests."""
    engine = DockerEngine(root, free_number())
    try:
        engine.start()
        with closing(docker.DockerClient(base_url=engine.url)) as client:
            import_images(client)
        yield engine
    finally:
        engine.stop()
