"""What schedulers that were written for TorchX build workspaces with."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchx_core.errors import InvalidAppError, InvalidRunConfigException, SchedulerError
from torchx_core.schedulers.api import DescribeAppResponse, Scheduler
from torchx_core.specs import AppDef, AppDryRunInfo, CfgVal, Role, Workspace, runopts
from torchx_core.workspace import WorkspaceMixin
from torchx_core.workspace.dir_workspace import DirWorkspaceMixin, TmpDirWorkspaceMixin
from torchx_core.workspace.docker_workspace import DockerWorkspaceMixin


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a file, one that is left out, and a directory."""
    top = tmp_path / "project"
    (top / "lib").mkdir(parents=True)
    (top / "main.py").write_text("main")
    (top / "lib" / "data.txt").write_text("data")
    (top / "secret.txt").write_text("secret")
    for ignore in (".torchxignore", ".dockerignore"):
        (top / ignore).write_text("secret.txt\n")
    return top


def _texts(directory: str) -> dict[str, str]:
    root = Path(directory)
    return {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.suffix in {".py", ".txt"}}


# ruff: noqa: ARG002  # the methods are TorchX's


class _Versions(WorkspaceMixin[None]):
    """Names images by a number, and keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[dict[str, str]] = []

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        self.given.append(_texts(workspace))
        role.image += f":{len(self.given)}"


def test_each_role_with_a_workspace_is_built(project: Path) -> None:
    """One project as it is; several laid over each other as one directory."""
    several = Workspace({str(project): "", str(project / "lib"): "more"})
    roles = [
        Role("a", "img"),
        Role("b", "img", workspace=Workspace({str(project): ""})),
        Role("c", "img", workspace=several),
    ]
    versions = _Versions()
    versions.build_workspaces(roles, {})
    assert [role.image for role in roles] == ["img", "img:1", "img:2"]
    one = {"main.py": "main", "lib/data.txt": "data", "secret.txt": "secret"}
    assert versions.given == [one, one | {"more/data.txt": "data"}]


class _Cached(WorkspaceMixin[None]):
    built = 0

    def caching_build_workspace_and_update_role(
        self, role: Role, cfg: Mapping[str, CfgVal], build_cache: dict[object, object]
    ) -> None:
        key = role.image, role.workspace
        if key not in build_cache:
            self.built += 1
            build_cache[key] = f"{role.image}:{self.built}"
        role.image = str(build_cache[key])


def test_roles_that_are_alike_may_be_built_once(project: Path) -> None:
    """The cache is the same for all roles of a call, and of no other."""
    cached = _Cached()
    for expected in ("img:1", "img:2"):
        roles = [Role(name, "img", workspace=Workspace({str(project): ""})) for name in "ab"]
        cached.build_workspaces(roles, {})
        assert [role.image for role in roles] == [expected, expected]


def test_who_implements_nothing() -> None:
    """The error names the class."""

    class Plain(WorkspaceMixin[None]):
        pass

    with pytest.raises(NotImplementedError, match="Plain does not build"):
        Plain().build_workspaces([Role("a", "img", workspace=Workspace({"/": ""}))], {})
    with pytest.raises(NotImplementedError, match="Plain does not push"):
        Plain().dryrun_push_images(AppDef("app"), {})


def test_a_temporary_directory(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy without what is left out; the image is the copy."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    role = Role("a", "img")
    TmpDirWorkspaceMixin().build_workspace_and_update_role(role, f"file://{project}", {})
    assert Path(role.image).parent == tmp_path
    assert _texts(role.image) == {"main.py": "main", "lib/data.txt": "data"}


def test_the_directory_of_an_option(project: Path, tmp_path: Path) -> None:
    """Without the option nothing is done; a directory that exists, or no workspace, is an error."""
    role, mixin, job = Role("a", "img"), DirWorkspaceMixin(), tmp_path / "job"
    mixin.build_workspace_and_update_role(role, "/no/such", {})
    assert role.image == "img"
    with pytest.raises(InvalidAppError, match="no such file or directory"):
        mixin.build_workspace_and_update_role(role, "/no/such", {"job_dir": str(job)})
    mixin.build_workspace_and_update_role(role, str(project), {"job_dir": str(job)})
    assert role.image == str(job)
    assert _texts(role.image) == {"main.py": "main", "lib/data.txt": "data"}
    with pytest.raises(FileExistsError):
        mixin.build_workspace_and_update_role(role, str(project), {"job_dir": str(job)})
    with pytest.raises(InvalidRunConfigException, match="job_dir must be a path: 7"):
        mixin.build_workspace_and_update_role(role, str(project), {"job_dir": 7})


class _Engine:
    """Stands for docker-py's client; notes what it was asked for."""

    def __init__(self, *steps: dict[str, Any]) -> None:
        self.steps, self.names, self.pushed = steps, list[str](), list[tuple[str, str]]()
        self.api = self.images = self

    def build(self, *, fileobj: Any, **options: Any) -> Iterator[dict[str, Any]]:
        with tarfile.open(fileobj=io.BytesIO(b"".join(fileobj))) as tar:
            self.names = tar.getnames()
        self.options = options
        return iter(self.steps)

    def get(self, image: str) -> Any:
        def note(repo: str, tag: str) -> None:
            self.pushed.append((image, f"{repo}:{tag}"))

        return SimpleNamespace(tag=note)

    def push(self, repo: str, tag: str, **_: Any) -> Iterator[dict[str, Any]]:
        return iter(self.steps)


def test_a_layer_on_a_container_image(project: Path) -> None:
    """The engine gets the files and a recipe; the role gets the id that it answers with."""
    engine = _Engine({"stream": "Step 1"}, {"aux": {"ID": "sha256:abc"}})
    role = Role("a", "img")
    DockerWorkspaceMixin(docker_client=engine).build_workspace_and_update_role(role, str(project), {})
    assert role.image == "sha256:abc"
    assert set(engine.names) == {
        "main.py",
        "lib",
        "lib/data.txt",
        ".torchxignore",
        ".dockerignore",
        "Dockerfile.torchx",
    }
    assert engine.options["buildargs"]["IMAGE"] == "img"


def test_a_recipe_of_ones_own(project: Path) -> None:
    """It is not replaced."""
    (project / "Dockerfile.torchx").write_text("FROM scratch\n")
    engine = _Engine({"aux": {"ID": "sha256:abc"}})
    DockerWorkspaceMixin(docker_client=engine).build_workspace_and_update_role(
        Role("a", "img"), str(project), {}
    )
    assert engine.names.count("Dockerfile.torchx") == 1


@pytest.mark.parametrize("steps", [({"error": "no space"},), ()])
def test_a_build_that_fails(project: Path, steps: tuple[dict[str, Any], ...]) -> None:
    """The error says of which role, and what the engine said."""
    role = Role("a", "img")
    with pytest.raises(SchedulerError, match=r"role 'a' on image img: (no space|the engine named no image)"):
        DockerWorkspaceMixin(docker_client=_Engine(*steps)).build_workspace_and_update_role(
            role, str(project), {}
        )
    assert role.image == "img"


def test_images_that_are_pushed() -> None:
    """Those that were built here get a name in the repository; all others stay."""
    app = AppDef("app", [Role("a", "sha256:abc"), Role("b", "img")])
    engine = _Engine({"status": "pushed"})
    mixin = DockerWorkspaceMixin(docker_client=engine)
    for error in (KeyError, InvalidRunConfigException):
        with pytest.raises(error, match="image_repo must say where to push sha256:abc"):
            mixin.dryrun_push_images(app, {})
    images = mixin.dryrun_push_images(app, {"image_repo": "example.com/team"})
    assert [role.image for role in app.roles] == ["example.com/team:abc", "img"]
    mixin.push_images(images)
    assert engine.pushed == [("sha256:abc", "example.com/team:abc")]
    with pytest.raises(SchedulerError, match=r"cannot push image example\.com/team:abc: denied"):
        DockerWorkspaceMixin(docker_client=_Engine({"error": "denied"})).push_images(images)


class _Scheduler(TmpDirWorkspaceMixin, Scheduler[Mapping[str, CfgVal]]):
    """A scheduler as TorchX's users write them."""

    def _run_opts(self) -> runopts:
        return runopts()

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[Any]:
        return AppDryRunInfo(app.roles[0].image, str)

    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        return str(dryrun_info.request)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        return None

    def _cancel_existing(self, app_id: str) -> None:
        pass


def test_a_scheduler_of_torchx_builds_when_it_submits(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request has the image that was built, of the workspace that is given or the role's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scheduler = _Scheduler("mine", "session")
    given = scheduler.submit(AppDef("app", [Role("a", "img")]), {}, workspace=str(project))
    own = scheduler.submit(AppDef("app", [Role("a", "img", workspace=Workspace({str(project): ""}))]), {})
    assert given != own
    assert _texts(given) == _texts(own) == {"main.py": "main", "lib/data.txt": "data"}
