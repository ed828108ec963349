"""When workspaces are built, and which; that they are built well is the schedulers' contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from torchx_core import AppDef, Role, Runner
from torchx_core.errors import InvalidAppError, SchedulerError
from torchx_core.runner import pin_workspace_images
from torchx_core.schedulers import Scheduler
from torchx_core.schedulers.workspaces import digest, walk
from torchx_core.specs import CfgVal, Workspace
from torchx_core.testing import FakeHost
from torchx_core.testing.fake.scheduler import FakeScheduler


class BuildingScheduler(FakeScheduler):
    """Builds images of nothing, and remembers which."""

    capabilities = replace(FakeScheduler.capabilities, workspaces=True)
    built: tuple[str, ...] = ()
    broken = False

    def workspace_image(self, role: Role, cfg: Mapping[str, CfgVal]) -> str:
        del cfg
        assert role.workspace
        return f"{role.image}+{digest(walk(role.workspace))[:8]}"

    def build_workspace(self, role: Role, cfg: Mapping[str, CfgVal]) -> str:
        if self.broken:
            raise SchedulerError("no space left", retryable=True)
        assert cfg["grace_s"] == 10.0, "the cfg is resolved"
        self.built += (self.workspace_image(role, cfg),)
        return self.built[-1]


class BuildingHost(FakeHost):
    """A host whose scheduler can build."""

    def scheduler(self, session_name: str, **_params: object) -> Scheduler[object]:
        return BuildingScheduler(self, session_name)  # type: ignore[return-value]  # as FakeHost does


@pytest.fixture
def runner() -> Runner:
    """A runner whose scheduler builds workspaces."""
    return Runner("s", {"fake": BuildingHost().scheduler})


@pytest.fixture
def project(tmp_path: Path) -> str:
    """A project with a file."""
    (tmp_path / "a.py").write_text("a")
    return str(tmp_path)


def built(runner: Runner) -> tuple[str, ...]:
    """Return what the runner's scheduler built."""
    scheduler = runner.scheduler("fake")
    assert isinstance(scheduler, BuildingScheduler)
    return scheduler.built


def role(name: str, image: str, *projects: str) -> Role:
    """Return a role with the projects as its workspace."""
    workspace = Workspace(dict.fromkeys(projects, "")) if projects else None
    return Role(name, image, entrypoint="fake", workspace=workspace)


def test_only_schedule_builds_and_each_pair_once(runner: Runner, project: str) -> None:
    """Roles with the same image and workspace share what is built; without a workspace the image stays."""
    app = AppDef(
        "app", [role("a", "x", project), role("b", "x", project), role("c", "y", project), role("d", "z")]
    )
    info = runner.dryrun(app, "fake")
    assert built(runner) == ()
    assert [r.name for r in info.builds] == ["a", "b", "c"]
    runner.schedule(info)
    first, second = built(runner)
    assert info.app is not None
    assert [r.image for r in info.app.roles] == [first, first, second, "z"]
    assert [r.workspace for r in info.app.roles] == [None] * 4
    assert first.startswith("x+")
    assert second.startswith("y+")


def test_a_build_that_fails_submits_nothing(
    runner: Runner, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error reaches the caller as it is; trying again later builds and submits."""
    info = runner.dryrun(AppDef("app", [role("a", "x", project)]), "fake", app_id="one")
    with monkeypatch.context() as broken:
        broken.setattr(runner.scheduler("fake"), "broken", value=True, raising=True)
        with pytest.raises(SchedulerError, match="no space left"):
            runner.schedule(info)
    assert runner.list("fake") == []
    assert runner.schedule(info) == "fake://s/one"


@pytest.mark.parametrize("form", ["path", "map", "workspace", "theirs"])
def test_the_argument_takes_the_place_of_the_first_roles_workspace(
    runner: Runner, project: str, form: str
) -> None:
    """Written as TorchX allows; other roles keep theirs, and the caller's app is not touched."""
    given = {
        "path": project,
        "map": f"{project}: sub",
        "workspace": Workspace({project: ""}),
        "theirs": SimpleNamespace(projects={project: ""}),
    }[form]
    app = AppDef("app", [role("a", "x", "/no/such"), role("b", "y", project)])
    info = runner.dryrun(app, "fake", workspace=given)  # type: ignore[arg-type]  # one is TorchX's
    assert [r.workspace for r in info.builds] == [
        Workspace({project: "sub" if form == "map" else ""}),
        Workspace({project: ""}),
    ]
    assert app.roles[0].workspace == Workspace({"/no/such": ""})


@pytest.mark.parametrize("workspace", [None, "", Workspace({})])
def test_no_argument_leaves_the_role_its_own(
    runner: Runner, project: str, workspace: Workspace | str | None
) -> None:
    """An empty argument counts as none, as in TorchX."""
    info = runner.dryrun(AppDef("app", [role("a", "x", project)]), "fake", workspace=workspace)
    assert info.builds[0].workspace == Workspace({project: ""})


def test_a_refused_workspace_is_named(runner: Runner) -> None:
    """By role and project, in the dry run."""
    with pytest.raises(InvalidAppError, match=r"roles\['b'\].workspace.projects\['/no/such'\]: no such file"):
        runner.dryrun(AppDef("app", [role("a", "x"), role("b", "y", "/no/such")]), "fake")


def test_building_ahead(runner: Runner, project: str) -> None:
    """For an app by pairs as they were authored, for a role its image; nothing without a workspace."""
    app = AppDef("app", [role("a", "x", project), role("b", "x", project), role("c", "y")])
    images = runner.build_workspace(app, "fake")
    assert images == {("x", Workspace({project: ""})): built(runner)[0]}
    assert len(built(runner)) == 1
    assert runner.build_workspace(app.roles[0], "fake") == built(runner)[0]
    assert runner.build_workspace(app.roles[2], "fake") is None
    assert app.roles[0] == role("a", "x", project)


def test_building_ahead_for_torchx(runner: Runner, project: str) -> None:
    """Its apps and roles will do, and its apps can be pinned."""
    theirs = SimpleNamespace(name="a", image="x", workspace=SimpleNamespace(projects={project: ""}))
    app = SimpleNamespace(name="app", roles=[theirs])
    images = runner.build_workspace(app, "fake")  # type: ignore[call-overload]  # that is the point
    assert runner.build_workspace(theirs, "fake") == built(runner)[0]  # type: ignore[call-overload]  # the same
    pin_workspace_images(app, images)  # type: ignore[arg-type]  # the same
    assert (theirs.image, theirs.workspace) == (built(runner)[0], None)


def test_pinning_matches_the_whole_pair(project: str) -> None:
    """A role that shares only the image, or only the workspace, or has none, stays as it is."""
    roles = [role("a", "x", project), role("b", "y", project), role("c", "x", "/other"), role("d", "x")]
    app = AppDef("app", roles)
    pin_workspace_images(app, {("x", Workspace({project: ""})): "built"})
    assert [r.image for r in app.roles] == ["built", "y", "x", "x"]
    assert [bool(r.workspace) for r in app.roles] == [False, True, True, False]


def test_a_pinned_app_builds_nothing(runner: Runner, project: str) -> None:
    """Its request is that of the app with the workspace."""
    app = AppDef("app", [role("a", "x", project)])
    before = runner.dryrun(app, "fake", app_id="one").app
    pin_workspace_images(app, runner.build_workspace(app, "fake"))
    info = runner.dryrun(app, "fake", app_id="one")
    assert info.builds == []
    assert info.app == before
