"""A submit forgets old apps that have ended, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from local_apps import app_of

from torchx_core import Runner
from torchx_core.errors import InvalidConfigError, InvalidRunConfigException
from torchx_core.schedulers.option_values import RETENTION_VARIABLE
from torchx_core.schedulers.retention import INTERVAL_S
from torchx_core.supervisor.records import FINAL
from torchx_core.testing import wait_until

PATIENCE_S = 240.0


@pytest.fixture
def session_dir(state_dir: Path) -> Path:
    """Where the runner's apps are."""
    return state_dir / "local_cwd" / "s"


def ended(runner: Runner, session_dir: Path, app_id: str, *, age_days: float, **cfg: str) -> None:
    """Leave an app that ended so long ago."""
    runner.wait(runner.run(app_of("true"), "local_cwd", cfg, app_id=app_id), timeout_s=PATIENCE_S)
    wait_until((session_dir / app_id / FINAL).exists, PATIENCE_S)
    _age(session_dir / app_id, age_days * 86400)
    _age(session_dir / ".retention.json", INTERVAL_S + 1)


def _age(path: Path, age_s: float) -> None:
    then = time.time() - age_s
    os.utime(path, (then, then))


def ids(runner: Runner) -> list[str]:
    """Return the apps that there are."""
    return sorted(app.app_id for app in runner.list("local_cwd"))


def test_a_submit_forgets_what_is_old(runner: Runner, session_dir: Path, tmp_path: Path) -> None:
    """What ended 31 days ago goes; what is newer, runs, or has its logs elsewhere stays."""
    lasting = runner.run(app_of("sleep", "600"), "local_cwd", app_id="lasting")
    _age(session_dir / "lasting", 40 * 86400)
    ended(runner, session_dir, "elsewhere", age_days=40, log_dir=str(tmp_path / "logs"))
    ended(runner, session_dir, "new", age_days=29)
    ended(runner, session_dir, "old", age_days=31)
    runner.wait(runner.run(app_of("true"), "local_cwd", app_id="next"), timeout_s=PATIENCE_S)
    assert ids(runner) == ["elsewhere", "lasting", "new", "next"]
    assert (tmp_path / "logs").exists()
    runner.cancel(lasting)
    runner.wait(lasting, timeout_s=PATIENCE_S)


def test_whoever_attaches_forgets_nothing(runner: Runner, session_dir: Path) -> None:
    """A retry finds the app of its earlier try, however old that is."""
    ended(runner, session_dir, "mine", age_days=31)
    assert runner.run(app_of("true"), "local_cwd", app_id="mine") == "local_cwd://s/mine"
    assert ids(runner) == ["mine"]


def test_it_can_be_turned_off(runner: Runner, session_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all stays until somebody deletes it."""
    ended(runner, session_dir, "old", age_days=400)
    monkeypatch.setenv(RETENTION_VARIABLE, "off")
    runner.wait(runner.run(app_of("true"), "local_cwd", app_id="next"), timeout_s=PATIENCE_S)
    assert ids(runner) == ["next", "old"]


def test_the_option_counts(runner: Runner, session_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its scheduler, whatever the environment says of all; and it makes no other request."""
    ended(runner, session_dir, "old", age_days=2)
    monkeypatch.setenv(RETENTION_VARIABLE, "off")
    runner.run(app_of("true"), "local_cwd", {"retention": "1d"}, app_id="old")
    assert ids(runner) == ["old"]
    runner.wait(
        runner.run(app_of("true"), "local_cwd", {"retention": "3d"}, app_id="next"), timeout_s=PATIENCE_S
    )
    _age(session_dir / ".retention.json", INTERVAL_S + 1)
    runner.wait(
        runner.run(app_of("true"), "local_cwd", {"retention": "1d"}, app_id="third"), timeout_s=PATIENCE_S
    )
    assert ids(runner) == ["next", "third"]


def test_a_mistake_in_the_option(runner: Runner, state_dir: Path) -> None:
    """It is refused where the app would be rendered."""
    with pytest.raises(InvalidRunConfigException, match=r"retention must be .*30d,10GB, or off: '30'"):
        runner.dryrun(app_of("true"), "local_cwd", {"retention": "30"})
    assert not state_dir.exists()


def test_a_mistake_submits_nothing(runner: Runner, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wrote it learns of it at once."""
    monkeypatch.setenv(RETENTION_VARIABLE, "30")
    with pytest.raises(InvalidConfigError, match="TORCHX_RETENTION"):
        runner.run(app_of("true"), "local_cwd")
    assert not state_dir.exists()


def test_a_damaged_app_stays(runner: Runner, session_dir: Path) -> None:
    """Somebody should look at it; the submit goes on."""
    ended(runner, session_dir, "damaged", age_days=40)
    (session_dir / "damaged" / "spec.json").write_text("{")
    _age(session_dir / "damaged", 40 * 86400)
    ended(runner, session_dir, "old", age_days=40)
    runner.wait(runner.run(app_of("true"), "local_cwd", app_id="next"), timeout_s=PATIENCE_S)
    assert ids(runner) == ["damaged", "next"]
