"""Workspaces: local files laid over a role's image."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchx_core.errors import AppIdConflictError, InvalidAppError, InvalidInputError
from torchx_core.runner import Runner, pin_workspace_images
from torchx_core.schedulers.unsupported import UNSUPPORTED
from torchx_core.specs import AppDef, AppState, CfgVal, Role, Workspace
from torchx_core.testing.contract.base import ContractBase, texts

__all__ = ["WorkspacesContract"]


class WorkspacesContract(ContractBase):
    """An image is made of a role's image and the files beside the submitter, and named after its content."""

    __test__ = False

    def test_a_workspace_is_refused_where_none_can_be_built(self, runner: Runner, tmp_path: Path) -> None:
        """Before anything is submitted, and by the role's name, also where it may be ignored aloud."""
        if runner.scheduler(self.backend).capabilities.workspaces:
            pytest.skip(f"{self.backend} builds workspaces")
        app = self._with_workspace(tmp_path, "true")
        may_ignore = UNSUPPORTED in dict(runner.scheduler_run_opts(self.backend))
        cfg: dict[str, CfgVal] = {**self.cfg, **({UNSUPPORTED: "refuse"} if may_ignore else {})}
        with pytest.raises(InvalidAppError, match=r"roles\['worker'\].workspace: .*cannot"):
            runner.run(app, self.backend, cfg)
        assert runner.list(self.backend) == []
        assert runner.build_workspace(app, self.backend, self.cfg) == {}
        assert runner.build_workspace(app.roles[0], self.backend, self.cfg) is None

    def test_the_program_finds_the_files(self, runner: Runner, tmp_path: Path) -> None:
        """In its working directory, each project at its place."""
        self.needs(runner, "workspaces")
        project = _project(tmp_path / "project", "one")
        extra = tmp_path / "extra.txt"
        extra.write_text("two\n")
        app = self._with_workspace(project, "cat data.txt pkg/extra.txt")
        app.roles[0].workspace = Workspace({str(project): "", str(extra): "pkg/"})
        assert self._printed(runner, app) == ["one", "two"]

    def test_a_dry_run_names_the_image(self, runner: Runner, tmp_path: Path) -> None:
        """It follows from the content; the request has no workspace, what to build is as authored."""
        self.needs(runner, "workspaces")
        app = self._with_workspace(_project(tmp_path / "project", "one"), "true")
        info = runner.dryrun(app, self.backend, self.cfg)
        assert info.app is not None
        assert [(role.image, role.workspace) for role in info.builds] == [
            (role.image, role.workspace) for role in app.roles
        ]
        assert info.app.roles[0].workspace is None
        image = info.app.roles[0].image
        assert image not in ("", app.roles[0].image)
        assert self._pinned(runner, app) == image
        _project(tmp_path / "project", "other")
        assert self._pinned(runner, app) != image
        _project(tmp_path / "project", "one")
        assert self._pinned(runner, app) == image

    def test_the_runners_workspace_wins(self, runner: Runner, tmp_path: Path) -> None:
        """An argument of ``run`` takes the place of the first role's workspace, as in TorchX."""
        self.needs(runner, "workspaces")
        app = self._with_workspace(_project(tmp_path / "mine", "mine"), "cat data.txt")
        given = str(_project(tmp_path / "given", "given"))
        handle = runner.run(app, self.backend, self.cfg, given)
        assert self.end(runner, handle).state == AppState.SUCCEEDED
        assert texts(runner.follow(handle)) == ["given"]

    def test_the_same_files_are_the_same_request(self, runner: Runner, tmp_path: Path) -> None:
        """A repeated submit attaches; one with changed files is another request and shows the image."""
        self.needs(runner, "workspaces")
        app = self._with_workspace(_project(tmp_path / "project", "one"), "cat data.txt")
        handle = self.run(runner, app, "id")
        assert self.run(runner, app, "id") == handle
        _project(tmp_path / "project", "other")
        with pytest.raises(AppIdConflictError, match=r"roles\[0\].image"):
            self.run(runner, app, "id")
        self.end(runner, handle)
        assert texts(runner.follow(handle)) == ["one"]

    def test_what_changed_since_the_dry_run_is_not_submitted(self, runner: Runner, tmp_path: Path) -> None:
        """What runs is what the dry run showed."""
        self.needs(runner, "workspaces")
        app = self._with_workspace(_project(tmp_path / "project", "one"), "true")
        info = runner.dryrun(app, self.backend, self.cfg)
        _project(tmp_path / "project", "other")
        with pytest.raises(InvalidInputError, match="'worker' changed since the dry run"):
            runner.schedule(info)
        assert runner.list(self.backend) == []

    def test_a_missing_project_submits_nothing(self, runner: Runner, tmp_path: Path) -> None:
        """It is refused with role and project."""
        self.needs(runner, "workspaces")
        with pytest.raises(InvalidAppError, match=r"roles\['worker'\].workspace.projects\[.*no such"):
            self.run(runner, self._with_workspace(tmp_path / "nowhere", "true"))
        assert runner.list(self.backend) == []

    def test_an_image_built_once_serves_many_submits(self, runner: Runner, tmp_path: Path) -> None:
        """Pinned, an app runs what was built, whatever became of the files; building changes no app."""
        self.needs(runner, "workspaces")
        project = _project(tmp_path / "project", "one")
        app = self._with_workspace(project, "cat data.txt")
        before = app.to_dict()
        images = runner.build_workspace(app, self.backend, self.cfg)
        assert app.to_dict() == before
        assert images == {
            (self.image, Workspace({str(project): ""})): runner.build_workspace(
                app.roles[0], self.backend, self.cfg
            )
        }
        pin_workspace_images(app, images)
        assert app.roles[0].workspace is None
        _project(project, "other")
        assert self._printed(runner, app) == ["one"]
        assert self._printed(runner, app) == ["one"]

    def test_what_an_app_writes_stays_its_own(self, runner: Runner, tmp_path: Path) -> None:
        """The next app of the same image finds the files as they were."""
        self.needs(runner, "workspaces")
        app = self._with_workspace(
            _project(tmp_path / "project", "one"), "cat data.txt; echo spoiled > data.txt"
        )
        assert self._printed(runner, app) == ["one"]
        assert self._printed(runner, app) == ["one"]

    def _with_workspace(self, project: Path, script: str) -> AppDef:
        role = Role("worker", self.image, entrypoint="/bin/sh", args=["-c", script])
        role.workspace = Workspace({str(project): ""})
        return AppDef("contract", [role])

    def _pinned(self, runner: Runner, app: AppDef) -> str:
        info = runner.dryrun(app, self.backend, self.cfg)
        assert info.app is not None
        return info.app.roles[0].image

    def _printed(self, runner: Runner, app: AppDef) -> list[str]:
        handle = self.run(runner, app)
        assert self.end(runner, handle).state == AppState.SUCCEEDED
        return texts(runner.follow(handle))


def _project(directory: Path, content: str) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "data.txt").write_text(f"{content}\n")
    return directory
