"""A zygote of a test's own: apps that are submitted meanwhile get their guardians from it."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from local_apps import app_of

import torchx_core
from torchx_core import get_runner
from torchx_core.schedulers.local.zygote import IDLE_VARIABLE, zygote_name
from torchx_core.testing import wait_until

__all__ = ["find_zygote", "name_here", "own_zygote"]

PACKAGE_ROOT = str(Path(torchx_core.__file__).parents[1])


def name_here() -> str | None:
    """Return the name of the zygote that this process would have now."""
    return zygote_name(PACKAGE_ROOT)


def find_zygote(name: str | None) -> psutil.Process | None:
    """Return the living zygote of that name."""
    return next((zygote for zygote in _zygotes() if zygote.cmdline()[1] == name), None)


def _zygotes() -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cmdline()[:1] == ["torchx-zygote"]:
                yield process


@contextmanager
def own_zygote() -> Iterator[psutil.Process]:
    """Have one left behind by an app that is over; kill it at the end."""
    before = os.environ.get(IDLE_VARIABLE, "")
    os.environ[IDLE_VARIABLE] = str(random.uniform(1000, 2000))  # another name than any other test's
    try:
        with tempfile.TemporaryDirectory() as state, get_runner("s", state_dir=state) as runner:
            handle = runner.run(app_of("true"), "local_cwd")
            runner.wait(handle, timeout_s=240)
            runner.delete(handle)  # its supervisor writes its last file just now
        name = name_here()
        zygote = wait_until(lambda: find_zygote(name), timeout_s=240)
        try:
            yield zygote
        finally:
            zygote.kill()
    finally:
        os.environ[IDLE_VARIABLE] = before
