"""What an app asks for and its scheduler cannot give: ignored with a warning, or refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchx_core import AppDef, AppState, Role, Runner, get_runner
from torchx_core.errors import AppIdConflictError, InvalidAppError, InvalidRunConfigException
from torchx_core.schedulers.difference import request_differences
from torchx_core.schedulers.options.local import local_run_opts
from torchx_core.schedulers.options.slurm import slurm_run_opts
from torchx_core.schedulers.unsupported import FORMER_MEANING
from torchx_core.specs import BindMount, CfgVal, Workspace

REFUSE: dict[str, CfgVal] = {"unsupported": "refuse"}


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A runner with a state directory of its own."""
    with get_runner("s", state_dir=str(tmp_path / "state")) as runner:
        yield runner


def app(image: str = "", **fields: object) -> AppDef:
    """Return an app of two roles, of which the second asks for these."""
    plain = Role("plain", image=image, entrypoint="/bin/true")
    return AppDef("a", [plain, Role("w", image=image, entrypoint="/bin/true", **fields)])  # type: ignore[arg-type]


MOUNTED = app(mounts=[BindMount("/a", "/b")])
PATCHED = app(workspace=Workspace({"/src": ""}))


def test_it_is_ignored_with_a_warning(runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    """Unless something else is asked for; the app is recorded as it was authored."""
    for asked, path in ((MOUNTED, "roles[1].mounts"), (PATCHED, "roles['w'].workspace")):
        caplog.clear()
        handle = runner.run(asked, "local_cwd")
        status = runner.wait(handle, timeout_s=240)
        described = runner.describe(handle)
        assert status
        assert described
        assert status.state == AppState.SUCCEEDED
        recorded, authored = described.roles[1], asked.roles[1]
        assert (recorded.mounts, recorded.workspace) == (authored.mounts, authored.workspace)
        [record] = caplog.records
        assert record.levelno == logging.WARNING
        assert record.getMessage().startswith(f"ignored: {path}: local_cwd cannot ")


@pytest.mark.parametrize("scheduler", ["local_cwd", "slurm"])
@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (MOUNTED, r"roles\[1\].mounts: .* cannot mount anything; use paths"),
        (PATCHED, r"roles\['w'\].workspace: .* cannot lay files over an image; leave it out, or"),
    ],
)
def test_it_is_refused_where_that_is_asked_for(
    runner: Runner, scheduler: str, asked: AppDef, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Before anything is submitted; without that a dry run says only that it is ignored."""
    with pytest.raises(InvalidAppError, match=problem):
        runner.run(asked, scheduler, REFUSE)
    assert caplog.text == ""
    runner.dryrun(asked, scheduler)
    assert "ignored: " in caplog.text


def test_what_a_scheduler_can_do_is_no_matter(
    runner: Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """local_dir builds workspaces, but cannot mount; an app that asks for nothing is never spoken of."""
    image = tmp_path / "image"
    image.mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "file").touch()
    patched = app(str(image), workspace=Workspace({str(tmp_path / "src"): ""}))
    assert runner.dryrun(patched, "local_dir", REFUSE).builds
    runner.dryrun(app(), "local_cwd", REFUSE)
    assert caplog.text == ""
    with pytest.raises(InvalidAppError, match="local_dir cannot mount"):
        runner.dryrun(app(str(image), mounts=[BindMount("/a", "/b")]), "local_dir", REFUSE)


def test_the_option_has_two_values(runner: Runner) -> None:
    """Whatever the app asks for."""
    with pytest.raises(InvalidRunConfigException, match="unsupported must be one of notice, refuse: 'warn'"):
        runner.dryrun(app(), "local_cwd", {"unsupported": "warn"})


def test_what_is_ignored_is_still_a_part_of_the_request(runner: Runner) -> None:
    """Equal apps are one; another mount is another app, on every scheduler."""
    handle = runner.run(MOUNTED, "local_cwd", app_id="one")
    assert runner.run(MOUNTED, "local_cwd", app_id="one") == handle
    with pytest.raises(AppIdConflictError, match=r"mounts"):
        runner.run(app(mounts=[BindMount("/c", "/b")]), "local_cwd", app_id="one")
    runner.wait(handle, timeout_s=240)


def test_refusing_is_what_was_done_before_there_was_the_option() -> None:
    """An app that an earlier release submitted is the same one, whichever of the two is asked for now."""
    for scheduler_opts in (local_run_opts(), slurm_run_opts()):
        for value in ("notice", "refuse"):
            asked = {"app": {}, "cfg": {"unsupported": value}}
            assert request_differences({"app": {}, "cfg": {}}, asked, scheduler_opts, FORMER_MEANING) == []


def test_an_app_of_an_earlier_release_is_attached_to(runner: Runner, tmp_path: Path) -> None:
    """Its record does not have the option."""
    handle = runner.run(app(), "local_cwd", {}, app_id="one")
    runner.wait(handle, timeout_s=240)
    spec = tmp_path / "state" / "local_cwd" / "s" / "one" / "spec.json"
    record = json.loads(spec.read_text())
    assert record["asked"]["cfg"].pop("unsupported") == "notice"
    spec.write_text(json.dumps(record))
    assert runner.run(app(), "local_cwd", REFUSE, app_id="one") == handle
