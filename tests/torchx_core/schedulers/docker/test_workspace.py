from __future__ import annotations

import base64
import io
import json
import logging
import shutil
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol, cast

import pytest
from docker.errors import APIError
from docker_engine import DockerEngine
from docker_images import SHELL_IMAGE
from registry import PASSWORD, USER, Registry, registry
from requests import Response

from torchx_core import AppDef, get_runner
from torchx_core.errors import InvalidAppError, InvalidRunConfigException, SchedulerError
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.endpoint import find_endpoint
from torchx_core.schedulers.docker.sdk import Api, sdk_client
from torchx_core.schedulers.docker.workspace import (
    LABEL,
    build_workspace,
    is_local_layer,
    prune_workspaces,
    workspace_image,
)
from torchx_core.specs import CfgVal, Role, Workspace
from torchx_core.workspace.docker_workspace import DockerWorkspaceMixin


class Calls(Protocol):
    """What these tests call of the SDK's client."""

    def inspect_image(self, image: str) -> dict[str, object]: ...
    def prune_images(self, filters: dict[str, object]) -> object: ...
    def build(self, **options: object) -> object: ...
    def tag(self, image: str, repository: str, tag: str) -> bool: ...
    def images(self, *, all: bool, filters: dict[str, object]) -> list[dict[str, object]]: ...  # noqa: A002
    def containers(self, *, all: bool) -> list[dict[str, object]]: ...  # noqa: A002
    def create_container(self, image: str, command: list[str]) -> dict[str, str]: ...
    def export(self, container: str) -> Iterator[bytes]: ...
    def remove_container(self, container: str) -> None: ...
    def remove_image(self, image: str, *, force: bool) -> None: ...
    def close(self) -> None: ...


@pytest.fixture
def builder(engine: DockerEngine) -> Iterator[Engine]:
    """The engine that builds; the layers that the test makes are removed."""
    builder = connect(engine)
    yield builder
    prune_workspaces(builder, older_than_s=0)
    builder.close()


@pytest.fixture
def calls(builder: Engine) -> Calls:
    """What else can be asked of it."""
    return cast("Calls", builder.api)


def connect(engine: DockerEngine) -> Engine:
    """Connect to the engine, with the login that the environment has now."""
    endpoint = find_endpoint(engine.url, {})
    return Engine(sdk_client(endpoint), endpoint)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project."""
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "train.py").write_text("print('training')\n")
    (folder / "package" / "run.sh").write_text("echo hello\n")
    (folder / "package" / "run.sh").chmod(0o755)
    return folder


def role_of(*projects: Path, image: str = SHELL_IMAGE) -> Role:
    """Return a role with these projects in its working directory."""
    workspace = Workspace({str(project): "" for project in projects})
    return Role(name="trainer", image=image, entrypoint="sh", workspace=workspace)


def recipe(project: Path, *steps: str) -> None:
    """Give the project a Dockerfile of its own."""
    (project / "Dockerfile.torchx").write_text("\n".join(["ARG IMAGE", "FROM $IMAGE", *steps]) + "\n")


def contents(calls: Calls, image: str) -> dict[str, tarfile.TarInfo]:
    """Return the files of an image, by path."""
    container = calls.create_container(image, ["true"])["Id"]
    data = b"".join(calls.export(container))
    calls.remove_container(container)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar}


# --- the name


def test_the_name_follows_from_the_content(project: Path, tmp_path: Path) -> None:
    """Equal files on an equal image have one name, wherever they lie; no engine is asked for it."""
    copy = tmp_path / "elsewhere"
    shutil.copytree(project, copy)
    name = workspace_image(role_of(project), {})
    assert name.startswith("torchx-workspace:")
    assert workspace_image(role_of(copy), {}) == name


@pytest.mark.parametrize("change", ["content", "mode", "file", "recipe"])
def test_any_change_of_the_files_is_another_name(project: Path, change: str) -> None:
    """Content, permissions, presence of a file and the recipe make the name."""
    before = workspace_image(role_of(project), {})
    if change == "content":
        (project / "train.py").write_text("print('testing')\n")
    elif change == "mode":
        (project / "train.py").chmod(0o700)
    elif change == "file":
        (project / "more").touch()
    else:
        recipe(project)
    assert workspace_image(role_of(project), {}) != before


def test_another_image_beneath_is_another_name(project: Path) -> None:
    """The name of the image beneath is part of it; what is ignored is not, nor is the ignore file."""
    name = workspace_image(role_of(project), {})
    assert workspace_image(role_of(project, image="other"), {}) != name
    (project / ".dockerignore").write_text("*.log\n")
    (project / "noise.log").touch()
    assert workspace_image(role_of(project), {}) == name


def test_the_repository_is_the_users(project: Path) -> None:
    """With image_repo the layer is named after it."""
    local = workspace_image(role_of(project), {})
    there = workspace_image(role_of(project), {"image_repo": "example.com:5000/team/app"})
    assert there == local.replace("torchx-workspace", "example.com:5000/team/app")
    assert (is_local_layer(local), is_local_layer(there)) == (True, False)


@pytest.mark.parametrize(
    "repo", ["example.com/app:tag", "Upper/Case", "a b", "/app", "https://example.com/app"]
)
def test_what_is_no_repository(project: Path, repo: str) -> None:
    """A repository that could not be pushed to is refused before anything is built."""
    with pytest.raises(InvalidRunConfigException, match="image_repo must be a repository without a tag"):
        workspace_image(role_of(project), {"image_repo": repo})


def test_a_project_that_is_not_there(tmp_path: Path) -> None:
    """A project that does not exist is refused, with its path."""
    with pytest.raises(InvalidAppError, match="no such file or directory"):
        workspace_image(role_of(tmp_path / "nowhere"), {})


# --- the layer


def test_the_files_are_in_the_image(builder: Engine, calls: Calls, project: Path) -> None:
    """The layer has the project's files with their permissions, and nothing of ours or that is ignored."""
    (project / ".dockerignore").write_text("*.log\nsecret\n")
    (project / "noise.log").touch()
    (project / "secret").mkdir()
    (project / "secret" / "key").touch()
    before = set(contents(calls, SHELL_IMAGE))
    image = build_workspace(builder, role_of(project), {})
    after = contents(calls, image)
    assert set(after) - before == {"train.py", "package", "package/run.sh"}
    assert after["package/run.sh"].mode & 0o777 == 0o755
    assert image == workspace_image(role_of(project), {})


def test_an_app_runs_what_lies_here(builder: Engine, engine: DockerEngine, project: Path) -> None:
    """A runner builds the layer and runs the app on it."""
    assert builder.endpoint.url == engine.url
    app = AppDef(name="shell", roles=[Role(name="main", image=SHELL_IMAGE, entrypoint="/package/run.sh")])
    (project / "package" / "run.sh").write_text("#!/bin/sh\n[ -e /train.py ] && exit 7\n")
    with get_runner("workspaces", docker_host=engine.url) as runner:
        handle = runner.run(app, "local_docker", workspace=str(project))
        status = runner.wait(handle, timeout_s=240)
        runner.delete(handle)
    assert status is not None
    assert status.roles[0].replicas[0].exit_code == 7


def test_projects_go_where_they_are_told(
    builder: Engine, calls: Calls, project: Path, tmp_path: Path
) -> None:
    """A project may go to a sub-directory of its own."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "util.py").touch()
    role = role_of(project)
    role.workspace = Workspace({str(project): "", str(tmp_path / "lib"): "vendor/lib"})
    assert {"train.py", "vendor/lib/util.py"} <= set(contents(calls, build_workspace(builder, role, {})))


def test_the_ignore_file_works_once(builder: Engine, calls: Calls, project: Path) -> None:
    """What ``!`` brings back is there: the engine does not apply the file again, by rules of its own."""
    (project / ".dockerignore").write_text("*\n!package\n")
    assert "package/run.sh" in contents(calls, build_workspace(builder, role_of(project), {}))


def test_it_is_built_once(builder: Engine, project: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The second call finds the layer; nothing is sent or built."""
    caplog.set_level(logging.INFO, "torchx_core")
    build_workspace(builder, role_of(project), {})
    assert "COPY" in caplog.text
    caplog.clear()
    build_workspace(builder, role_of(project), {})
    assert caplog.text == ""


def test_a_newer_image_beneath_is_built_upon(builder: Engine, calls: Calls, project: Path) -> None:
    """When the image's name has come to mean another image, the layer is built anew on that."""
    calls.tag(SHELL_IMAGE, "moving", "latest")
    first = build_workspace(builder, role_of(project, image="moving"), {})
    old = calls.inspect_image(first)["Id"]
    recipe(project, "RUN touch /newer")
    newer = build_workspace(builder, role_of(project), {})
    (project / "Dockerfile.torchx").unlink()
    calls.tag(newer, "moving", "latest")
    assert build_workspace(builder, role_of(project, image="moving"), {}) == first
    assert calls.inspect_image(first)["Id"] != old
    assert {"newer", "train.py"} <= set(contents(calls, first))
    calls.remove_image("moving", force=True)


def test_a_recipe_of_its_own(builder: Engine, calls: Calls, project: Path) -> None:
    """``Dockerfile.torchx`` is used, and knows the image beneath and where the workspace was."""
    recipe(project, "ARG WORKSPACE", "COPY train.py /app/", "RUN echo $WORKSPACE > /app/origin")
    found = contents(calls, build_workspace(builder, role_of(project), {}))
    assert {"app/train.py", "app/origin"} <= set(found)
    assert "package/run.sh" not in found


def test_a_step_that_fails(builder: Engine, calls: Calls, project: Path) -> None:
    """The error has role, image, step and the last lines; no container and no image is left."""
    recipe(project, "RUN echo first; echo second >&2; exit 3")
    last = "(first; second|second; first)"
    told = rf"role 'trainer' on image {SHELL_IMAGE}: Step 3/\d : RUN .*non-zero code: 3: {last}"
    with pytest.raises(SchedulerError, match=told):
        build_workspace(builder, role_of(project), {})
    assert calls.containers(all=True) == []
    assert calls.images(all=False, filters={"label": LABEL}) == []


def test_a_recipe_that_is_none(builder: Engine, project: Path) -> None:
    """A mistake in the recipe is told as the engine tells it."""
    recipe(project, "INSTALL everything")
    with pytest.raises(SchedulerError, match="unknown instruction: INSTALL"):
        build_workspace(builder, role_of(project), {})


def test_a_file_that_shrinks_ends_the_build(builder: Engine, calls: Calls, project: Path) -> None:
    """A build whose files go while they are sent ends with our error, and the next one works."""
    large = project / "large"
    with large.open("wb") as file:
        file.truncate(64 << 20)
    emptying = Engine(cast("Api", Emptying(calls, large)), builder.endpoint)
    with pytest.raises(InvalidAppError, match="became shorter"):
        build_workspace(emptying, role_of(project), {})
    assert build_workspace(builder, role_of(project), {})


class Emptying:
    """The SDK's client, with which a file is emptied while it is sent."""

    def __init__(self, calls: Calls, file: Path) -> None:
        self._calls = calls
        self._file = file

    def inspect_image(self, image: str) -> dict[str, object]:
        """Do what it always does."""
        return self._calls.inspect_image(image)

    def remove_image(self, image: str) -> None:
        """Do what it always does."""
        self._calls.remove_image(image, force=False)

    def build(self, fileobj: Iterator[bytes], **options: object) -> object:
        """Watch what is sent."""
        return self._calls.build(fileobj=self._watched(fileobj), **options)

    def _watched(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for i, piece in enumerate(pieces):
            if i == 20:
                self._file.write_bytes(b"")
            yield piece


def test_a_file_that_changes_while_it_is_sent(builder: Engine, calls: Calls, project: Path) -> None:
    """An image whose files are not those that its name says is taken back; submitting again may work."""
    (project / "large").write_bytes(bytes(8 << 20))
    changing = Engine(cast("Api", Emptying(calls, project / "train.py")), builder.endpoint)
    with pytest.raises(SchedulerError, match="changed while its image was built; submit again") as caught:
        build_workspace(changing, role_of(project), {})
    assert caught.value.retryable
    assert calls.images(all=False, filters={"label": LABEL}) == []


def test_a_layer_outlives_the_image_beneath(builder: Engine, calls: Calls, project: Path) -> None:
    """A layer that is there is used although the image beneath is not, and cannot be pulled."""
    calls.tag(SHELL_IMAGE, "127.0.0.1:9/beneath", "latest")
    role = role_of(project, image="127.0.0.1:9/beneath:latest")
    image = build_workspace(builder, role, {})
    calls.remove_image("127.0.0.1:9/beneath:latest", force=True)
    assert build_workspace(builder, role, {}) == image


@pytest.mark.parametrize(("policy", "message"), [("missing", "cannot pull"), ("never", "pull=never")])
def test_an_image_beneath_that_is_not_there(
    builder: Engine, project: Path, policy: str, message: str
) -> None:
    """An image that is not on the engine is pulled, unless that is forbidden; either failure names it."""
    with pytest.raises(SchedulerError, match=rf"{message}") as caught:
        build_workspace(builder, role_of(project, image="127.0.0.1:9/not-there"), {"pull": policy})
    assert "127.0.0.1:9/not-there" in str(caught.value)


def test_builders_at_once(builder: Engine, calls: Calls, project: Path) -> None:
    """Several callers at once all get the image."""
    with ThreadPoolExecutor(4) as pool:
        builds = [pool.submit(build_workspace, builder, role_of(project), {}) for _ in range(4)]
        images = {build.result() for build in builds}
    assert len(images) == 1
    assert "train.py" in contents(calls, images.pop())


def test_quiet(builder: Engine, project: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With quiet the log has that a build began, and not its steps."""
    caplog.set_level(logging.INFO, "torchx_core")
    build_workspace(builder, role_of(project), {"quiet": True})
    assert "building the workspace" in caplog.text
    assert "COPY" not in caplog.text


# --- removing


def test_layers_that_nobody_uses_are_removed(builder: Engine, calls: Calls, project: Path) -> None:
    """Pruning removes a layer unless a container uses it or it is young; other images stay."""
    used = build_workspace(builder, role_of(project), {})
    container = calls.create_container(used, ["true"])["Id"]
    (project / "more").touch()
    unused = build_workspace(builder, role_of(project), {})
    assert prune_workspaces(builder) == []
    assert prune_workspaces(builder, older_than_s=0) == [unused]
    calls.remove_container(container)
    assert prune_workspaces(builder, older_than_s=0) == [used]
    assert calls.inspect_image(SHELL_IMAGE)


class Busy:
    """An engine that is removing images for somebody else."""

    def prune_images(self, filters: dict[str, object]) -> object:
        """Refuse."""
        del filters
        answer = Response()
        answer.status_code = 409
        raise APIError("Conflict", answer, "a prune operation is already running")


def test_while_another_client_prunes_nothing_is_removed(engine: DockerEngine) -> None:
    """The engine does this for one client at a time; two hosts that prune at once both succeed."""
    assert prune_workspaces(Engine(cast("Api", Busy()), find_endpoint(engine.url, {}))) == []


# --- pushing


@pytest.fixture
def hub(engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry, and the Docker configuration of somebody who has logged in."""
    with registry(engine.host_address) as server:
        log_in(tmp_path, server, PASSWORD)
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        yield server


def log_in(folder: Path, server: Registry, password: str) -> None:
    """Write what ``docker login`` does."""
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {server.address: {"auth": auth}}}))


def test_pushed_with_the_users_login(hub: Registry, builder: Engine, project: Path) -> None:
    """With image_repo the layer is in the registry when the call returns."""
    image = build_workspace(builder, role_of(project), {"image_repo": f"{hub.address}/team/app"})
    assert list(hub.manifests) == [image.removeprefix(f"{hub.address}/")]


def test_a_login_that_is_refused(hub: Registry, engine: DockerEngine, project: Path, tmp_path: Path) -> None:
    """A push that is refused fails with the image's name and without the password."""
    log_in(tmp_path, hub, f"{PASSWORD}-of-old")
    builder = connect(engine)
    with pytest.raises(SchedulerError, match=rf"cannot push image {hub.address}/team/app") as caught:
        build_workspace(builder, role_of(project), {"image_repo": f"{hub.address}/team/app"})
    builder.close()
    assert PASSWORD not in str(caught.value)
    assert hub.manifests == {}


def test_torchx_s_mixin_builds_on_an_engine(calls: Calls, project: Path) -> None:
    """The files are in the image that the role has then; a build that fails leaves no container."""
    role, quiet = role_of(), cast("dict[str, CfgVal]", {"quiet": True})
    (project / ".dockerignore").write_text("package\n")
    mixin = DockerWorkspaceMixin(docker_client=SimpleNamespace(api=calls))
    mixin.build_workspace_and_update_role(role, str(project), quiet)
    plain = contents(calls, role.image)
    assert role.image.startswith("sha256:")
    assert {"train.py", ".dockerignore"} <= {name.rpartition("/")[2] for name in plain}
    assert not any(name.endswith("run.sh") for name in plain)
    calls.remove_image(role.image, force=True)
    recipe(project, "RUN false")
    with pytest.raises(SchedulerError, match="cannot build the workspace of role 'trainer' on image"):
        mixin.build_workspace_and_update_role(role_of(), str(project), quiet)
