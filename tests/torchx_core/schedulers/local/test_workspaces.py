from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from torchx_core import AppDef, AppState, Role, Runner, get_runner
from torchx_core.errors import InvalidAppError, SchedulerError, SubmitFailedError
from torchx_core.runner import pin_workspace_images
from torchx_core.schedulers import workspaces
from torchx_core.schedulers.local.image_store import ImageStore
from torchx_core.schedulers.removing import remove_tree
from torchx_core.schedulers.workspaces import copy_entries
from torchx_core.specs import Workspace

LONG_AGO = time.time() - 7200


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a program, and an image beneath it."""
    (tmp_path / "image" / "lib").mkdir(parents=True)
    (tmp_path / "image" / "lib" / "base.txt").write_text("base\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "main.sh").write_text('echo "in $PWD"; cat lib/base.txt\n')
    return tmp_path / "project"


@pytest.fixture
def role(project: Path) -> Role:
    """A role that runs the project's program."""
    image = str(project.parent / "image")
    return Role("r", image, entrypoint="/bin/sh", args=["main.sh"], workspace=Workspace({str(project): ""}))


@pytest.fixture
def images(state_dir: Path) -> Path:
    """Where the scheduler keeps what it built."""
    return state_dir / "local_dir" / ".images"


def printed(runner: Runner, role: Role) -> list[str]:
    """Run the role and return what it printed."""
    handle = runner.run(AppDef("app", [role]), "local_dir")
    assert runner.wait(handle, timeout_s=20) is not None
    return [line.removesuffix("\n") for line in runner.log_lines(handle, "r")]


def test_a_dry_run_touches_no_disk(runner: Runner, role: Role, state_dir: Path) -> None:
    """It names the image, which is a directory to be, and shows where the app will run."""
    info = runner.dryrun(AppDef("app", [role]), "local_dir", app_id="one")
    assert not state_dir.exists()
    assert info.app is not None
    name = Path(info.app.roles[0].image).name
    assert f'"cwd": "{state_dir}/local_dir/s/one/image/{name}"' in str(info)


def test_the_app_runs_in_its_own_copy(runner: Runner, role: Role, state_dir: Path) -> None:
    """Of the image with the workspace over it; the copy goes with the app's record."""
    handle = runner.run(AppDef("app", [role]), "local_dir", app_id="one")
    runner.wait(handle, timeout_s=20)
    here = state_dir / "local_dir" / "s" / "one" / "image"
    copies = [path.name for path in here.iterdir()]
    assert list(runner.log_lines(handle, "r")) == [f"in {here / copies[0]}\n", "base\n"]
    runner.delete(handle)
    assert not here.exists()


def test_a_project_may_hold_the_state_directory(
    runner: Runner, role: Role, state_dir: Path, images: Path
) -> None:
    """As a home directory does: no image has those in it that were built before."""
    role.workspace = Workspace({str(state_dir.parent): ""})
    role.args = ["-c", "ls -d project"]
    assert [printed(runner, role) for _ in range(2)] == [["project"], ["project"]]
    assert not [path for image in images.iterdir() for path in image.rglob(".images")]


def test_macros_speak_of_the_copy(runner: Runner, role: Role) -> None:
    """``img_root`` is where the program runs, not where the image was built."""
    role.args = ["-c", "test ${img_root} = $$PWD && echo same"]
    assert printed(runner, role) == ["same"]


def test_roles_of_one_image_share_the_copy(runner: Runner, role: Role, state_dir: Path) -> None:
    """As the replicas of a role do."""
    other = Role("s", role.image, entrypoint="/bin/true", workspace=role.workspace)
    handle = runner.run(AppDef("app", [role, other]), "local_dir", app_id="one")
    assert runner.wait(handle, timeout_s=20) is not None
    assert len(list((state_dir / "local_dir" / "s" / "one" / "image").iterdir())) == 1


def test_two_builders_make_one_image(runner: Runner, role: Role, images: Path) -> None:
    """Whoever comes second finds it done, or throws his own away."""
    (Path(role.image) / "big").write_bytes(os.urandom(2_000_000))
    with ThreadPoolExecutor(8) as pool:
        built = set(pool.map(runner.build_workspace, [role] * 8, ["local_dir"] * 8))
    assert built == {str(path) for path in images.iterdir()}
    assert len(built) == 1


KILLED = """
import os, signal, sys
from torchx_core.schedulers.local import image_store
from torchx_core.specs import Role, Workspace

image_store.rename_unless_there = lambda fresh, image: os.kill(os.getpid(), signal.SIGKILL)
store, base, project = sys.argv[1:]
image_store.ImageStore(store).build(Role("r", base, workspace=Workspace({project: ""})))
"""


def test_a_killed_build_leaves_no_image(runner: Runner, role: Role, project: Path, images: Path) -> None:
    """Half of one is never seen; the next build starts afresh, and what was left is pruned in time."""
    command = [sys.executable, "-c", KILLED, str(images), role.image, str(project)]
    assert subprocess.run(command, check=False).returncode == -9
    (left,) = images.iterdir()
    assert left.name.startswith(".new-")
    assert printed(runner, role)[1] == "base"
    os.utime(left, (LONG_AGO, LONG_AGO))
    runner.prune("local_dir")
    assert not left.exists()


def test_prune_removes_images_that_are_not_used(runner: Runner, role: Role, images: Path) -> None:
    """After an hour, or the age that is given; an app that runs in its copy misses nothing."""
    role.args = ["-c", "while test ! -e go; do sleep 0.02; done; cat lib/base.txt"]
    handle = runner.run(AppDef("app", [role]), "local_dir", app_id="one")
    (image,) = images.iterdir()
    runner.prune("local_dir")
    assert image.exists()
    os.utime(image, (LONG_AGO, LONG_AGO))
    runner.prune("local_dir", max_age_s=90_000)
    assert image.exists()
    runner.prune("local_dir")
    assert list(images.iterdir()) == []
    (images.parent / "s" / "one" / "image" / image.name / "go").touch()
    status = runner.wait(handle, timeout_s=20)
    assert status is not None
    assert status.state == AppState.SUCCEEDED


@pytest.mark.parametrize("use", ["build", "submit"])
def test_using_an_image_keeps_it(runner: Runner, role: Role, images: Path, use: str) -> None:
    """Building it again, or submitting an app that is pinned to it, counts as use."""
    app = AppDef("app", [role])
    built = runner.build_workspace(app, "local_dir")
    (image,) = images.iterdir()
    os.utime(image, (LONG_AGO, LONG_AGO))
    if use == "build":
        assert runner.build_workspace(app, "local_dir") == built
    else:
        pin_workspace_images(app, built)
        assert printed(runner, role)[1] == "base"
    runner.prune("local_dir")
    assert image.exists()


def test_an_image_that_was_pruned_is_missed(runner: Runner, role: Role, images: Path) -> None:
    """A pinned app is refused with what to do, and leaves nothing; one with a workspace builds it again."""
    authored = AppDef("app", [role])
    pinned = AppDef("app", [Role(**vars(role))])
    pin_workspace_images(pinned, runner.build_workspace(authored, "local_dir"))
    (image,) = images.iterdir()
    remove_tree(str(image))
    with pytest.raises(SubmitFailedError, match="was pruned; build the workspace again"):
        runner.run(pinned, "local_dir")
    assert runner.list("local_dir") == []
    assert not [p.name for p in (images.parent / "s").iterdir() if p.name.startswith(".new")]
    assert printed(runner, role)[1] == "base"


def test_read_only_directories_come_and_go(runner: Runner, role: Role, project: Path) -> None:
    """They are copied with what is in them, keep their permissions, and do not hinder deleting."""
    (project / "fixed").mkdir()
    (project / "fixed" / "a").write_text("a")
    (project / "fixed").chmod(0o555)
    role.args = ["-c", "stat -c %a fixed; cat fixed/a"]
    assert printed(runner, role) == ["555", "a"]
    (app,) = runner.list("local_dir")
    runner.delete(app.app_handle)


REMOVE = "import sys; from torchx_core.schedulers.removing import remove_tree; remove_tree(sys.argv[1])"


def test_a_tree_of_read_only_directories_is_removed(tmp_path: Path) -> None:
    """By one who has to obey permissions; what a link leads to keeps its own."""
    victim, outside = tmp_path / "victim", tmp_path / "outside"
    (victim / "a" / "b").mkdir(parents=True)
    (victim / "a" / "b" / "f").touch()
    outside.mkdir(mode=0o500)
    (victim / "a" / "link").symlink_to(outside)
    for path in (victim / "a" / "b", victim / "a", victim):
        path.chmod(0o500)
    powerless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
    if powerless and not shutil.which("setpriv"):
        pytest.skip("root obeys no permissions, and there is no setpriv")
    subprocess.run([*powerless, sys.executable, "-c", REMOVE, str(victim)], check=True)
    assert not victim.exists()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o500


def test_a_file_that_changes_while_it_is_copied(
    role: Role, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No image gets a name that its content does not have; trying again may help."""

    def changed(entries: list[workspaces.Entry], target: str) -> None:
        copy_entries(entries, target)
        (Path(target) / "main.sh").write_text("torn")

    monkeypatch.setattr("torchx_core.schedulers.local.image_store.copy_entries", changed)
    with pytest.raises(SchedulerError, match="changed while it was copied") as raised:
        ImageStore(str(images)).build(role)
    assert raised.value.retryable
    assert list(images.iterdir()) == []


def test_links_are_in_the_image(runner: Runner, role: Role, project: Path) -> None:
    """As links, which lead to the copy's own files."""
    (project / "link").symlink_to("lib/base.txt")
    role.args = ["-c", "test -L link && echo changed > link && cat lib/base.txt"]
    assert printed(runner, role) == ["changed"]
    assert printed(runner, role) == ["changed"]


def test_an_image_that_cannot_be_built(role: Role, tmp_path: Path) -> None:
    """The outside world's failure is told with what it was about, and may pass."""
    (tmp_path / "file").touch()
    with pytest.raises(SchedulerError, match=r"cannot build image .*file/\.images/") as raised:
        ImageStore(str(tmp_path / "file" / ".images")).build(role)
    assert raised.value.retryable


def test_an_image_that_cannot_be_copied(
    runner: Runner, role: Role, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submits nothing and leaves nothing."""
    app = AppDef("app", [role])
    pin_workspace_images(app, runner.build_workspace(app, "local_dir"))

    def fails(entries: list[workspaces.Entry], target: str) -> None:
        copy_entries(entries, target)
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("torchx_core.schedulers.local.image_store.copy_entries", fails)
    with pytest.raises(SubmitFailedError, match=r"cannot copy image .*no space left"):
        runner.run(app, "local_dir")
    assert runner.list("local_dir") == []
    assert [path.name for path in (images.parent / "s").iterdir()] == []


def test_an_image_must_be_there_to_lay_files_over(runner: Runner, role: Role) -> None:
    """It is refused by the role's name in the dry run."""
    role.image = "/no/such"
    with pytest.raises(InvalidAppError, match=r"roles\['r'\].image: no such directory: '/no/such'"):
        runner.dryrun(AppDef("app", [role]), "local_dir")


def test_the_state_directory_may_be_relative(
    tmp_path: Path, role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A built image is one whatever the state directory was called."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with get_runner("s", state_dir="../state") as runner:
        assert printed(runner, role)[1] == "base"


def test_describe_native_is_what_the_supervisor_runs(runner: Runner, role: Role) -> None:
    """Plain values, with secrets masked; nothing for an unknown app."""
    role.env = {"MY_TOKEN": "hidden", "PLAIN": "shown"}
    handle = runner.run(AppDef("app", [role]), "local_dir", app_id="one")
    native = json.dumps(runner.describe_native(handle))
    assert '"app_id": "one"' in native
    assert '"argv": ["/bin/sh", "main.sh"]' in native
    assert '"MY_TOKEN": "***", "PLAIN": "shown"' in native
    assert "hidden" not in native
    assert runner.describe_native(handle + "x") is None
