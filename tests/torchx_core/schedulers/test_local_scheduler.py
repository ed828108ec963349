from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from torchx_core.errors import InvalidAppError, UnknownAppException, UnknownReplicaError
from torchx_core.schedulers import Stream
from torchx_core.schedulers.local import LocalScheduler
from torchx_core.schedulers.local_scheduler import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
    create_scheduler,
)
from torchx_core.specs import AppDef, AppState, Role

Make = Callable[..., LocalScheduler]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Return what makes a scheduler of the image provider; it is closed after the test."""
    with ExitStack() as stack:

        def scheduler(provider: Callable[..., ImageProvider] = CWDImageProvider) -> LocalScheduler:
            made = create_scheduler(
                "session", image_provider_class=provider, state_dir=str(tmp_path / "state")
            )
            return stack.enter_context(closing(made))

        yield scheduler


def app(entrypoint: str, *args: str, image: str = "") -> AppDef:
    """Return an app of one replica."""
    return AppDef("app", [Role("main", image=image, entrypoint=entrypoint, args=list(args))])


def test_an_app_runs_without_a_runner(make: Make) -> None:
    """`submit` and `log_iter` are TorchX's: by the app's id, and the app given stays as it was."""
    scheduler = make()
    given = app("sh", "-c", "echo out; echo err >&2; echo ${app_id}")
    app_id = scheduler.submit(given, {"log_mode": "exact"})
    assert list(scheduler.log_iter(app_id, "main", 0, should_tail=True)) == ["out\n", "err\n", f"{app_id}\n"]
    assert list(scheduler.log_iter(app_id, "main", 0, "o|e", streams=Stream.STDERR)) == ["err\n"]
    described = scheduler.describe(app_id)
    assert described is not None
    assert described.state == AppState.SUCCEEDED
    assert given.roles[0].args[-1].endswith("${app_id}")


def test_a_log_that_is_not_there_is_an_error(make: Make) -> None:
    """No such app, no such role, no such replica: each says which."""
    scheduler = make()
    with pytest.raises(UnknownAppException, match="local_cwd://session/nothing"):
        scheduler.log_iter("nothing", "main")
    app_id = scheduler.submit(app("true"))
    for role, replica in (("worker", 0), ("main", 1)):
        with pytest.raises(UnknownReplicaError, match="worker" if replica == 0 else "1"):
            scheduler.log_iter(app_id, role, replica)
    list(scheduler.log_iter(app_id, "main", should_tail=True))


def test_an_app_is_checked_before_it_is_submitted(make: Make) -> None:
    """Nothing is left in the state directory of an app that is refused."""
    scheduler = make()
    with pytest.raises(InvalidAppError, match="roles"):
        scheduler.submit(AppDef("app", []))
    assert scheduler.list() == []


def test_a_workspace_is_built_first(make: Make, tmp_path: Path) -> None:
    """The files of the directory lie over the first role's image."""
    image, files = tmp_path / "image", tmp_path / "files"
    image.mkdir()
    files.mkdir()
    (files / "hello.sh").write_text("#!/bin/sh\necho from the workspace\n")
    (files / "hello.sh").chmod(0o755)
    scheduler = make(LocalDirectoryImageProvider)
    app_id = scheduler.submit(app("hello.sh", image=str(image)), {}, workspace=str(files))
    assert list(scheduler.log_iter(app_id, "main", should_tail=True)) == ["from the workspace\n"]


@pytest.mark.parametrize(("entrypoint", "said"), [("true", ["from the workspace\n"]), ("echo", ["\n"])])
def test_a_program_of_the_workspace_comes_before_one_of_path(
    make: Make, tmp_path: Path, entrypoint: str, said: list[str]
) -> None:
    """Also in the dry run, before the image is built; a name that it does not have is one for PATH."""
    image, files = tmp_path / "image", tmp_path / "files"
    image.mkdir()
    files.mkdir()
    (files / "true").write_text("#!/bin/sh\necho from the workspace\n")
    (files / "true").chmod(0o755)
    scheduler = make(LocalDirectoryImageProvider)
    app_id = scheduler.submit(app(entrypoint, image=str(image)), {}, workspace=str(files))
    assert list(scheduler.log_iter(app_id, "main", should_tail=True)) == said


def test_an_image_provider_may_be_ones_own(make: Make) -> None:
    """It is made with the options, and says where the program lies."""

    class Shouting(CWDImageProvider):
        def get_entrypoint(self, img_root: str, role: Role) -> str:
            return super().get_entrypoint(img_root, role).lower()

    scheduler = make(Shouting)
    app_id = scheduler.submit(app("ECHO", "hello"))
    assert list(scheduler.log_iter(app_id, "main", should_tail=True)) == ["hello\n"]
