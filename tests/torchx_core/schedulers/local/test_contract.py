"""The local schedulers keep every promise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from zygotes import own_zygote

from torchx_core import Runner, get_runner
from torchx_core.testing import SchedulerContract, Step, python_program


class LocalContract(SchedulerContract):
    """Programs are real processes of this Python."""

    __test__ = False

    short_s = 2.0  # a busy host may keep a follower from its work for as long as a second

    @pytest.fixture
    def new_runner(self, tmp_path: Path) -> Callable[[], Runner]:
        """All runners of a test share one state directory."""
        return partial(get_runner, "contract", state_dir=str(tmp_path / "state"))

    def program(self, *steps: Step) -> tuple[str, list[str]]:
        """Use the Python that runs the tests, without its site packages: it starts in a third of the time."""
        entrypoint, args = python_program(*steps, python=sys.executable)
        return entrypoint, ["-I", "-S", *args]


class TestLocalCwd(LocalContract):
    """``local_cwd``; its apps get their guardians from a zygote."""

    backend = "local_cwd"

    @pytest.fixture(scope="class", autouse=True)
    @staticmethod
    def zygote() -> Iterator[None]:
        """One for all tests, which outlives them."""
        with own_zygote() as zygote:
            yield
            assert zygote.is_running()


@pytest.mark.slow
@pytest.mark.usefixtures("no_zygote")
class TestLocalDir(LocalContract):
    """``local_dir``; its image is a directory, and its apps' guardians are started as programs."""

    backend = "local_dir"

    @pytest.fixture(autouse=True)
    def own_image(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An image of its own for each test, small enough to be read whole."""
        (tmp_path / "image").mkdir()
        monkeypatch.setattr(type(self), "image", str(tmp_path / "image"))
