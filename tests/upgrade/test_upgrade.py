"""Apps that one release has started are followed, taken over, cancelled and pruned by the next one.

The release before is that of the commit in ``UPGRADE_FROM``; see `make test-upgrade`. Both are wheels,
installed one over the other into the same environment, as `pip install --upgrade` does beside running apps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest
from docker_engine import DockerEngine, free_number, why_no_engine
from docker_images import SHELL_IMAGE, import_images
from shared import SHARED_HOME
from slurm_cluster import running_cluster, why_no_cluster

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
HALF = 300
"""So many lines of each stream are there before the upgrade, and as many come after it."""
_SPEAK = 'i=$1; while [ $i -lt $2 ]; do echo "out $i"; echo "err $i" >&2; i=$((i + 1)); done'
_UNTIL = 'until [ -e "$FOLDER/go" ]; do sleep 0.2; done'
TALKER = f"set -- 0 {HALF}; {_SPEAK}; echo half; {_UNTIL}; set -- {HALF} {2 * HALF}; {_SPEAK}"
STUBBORN = "trap '' TERM; echo half; while :; do sleep 1; done"
RESTARTS = f'echo half; {_UNTIL}; ! mkdir "$FOLDER/failed" 2>/dev/null || exit 7; sleep 1'
"""The first replica that gets there fails; both are then started again."""
FAILS = "echo gone wrong >&2; exit 5"


class Site:
    """An environment with one release after the other, and a scheduler that it uses."""

    def __init__(self, root: Path, scheduler: str, image: str) -> None:
        self.root = root
        self.scheduler = scheduler
        self.image = image
        self.python = root / "venv" / "bin" / "python"
        self.gate = root / "gate"
        self.gate.mkdir()
        run("uv", "venv", "--quiet", "--python", sys.executable, str(root / "venv"))

    def install(self, wheel: Path) -> None:
        """Install the wheel over what is there."""
        constraints = ROOT / "constraints" / "dev.txt"
        options = ("--quiet", "--python", str(self.python), "--constraint", str(constraints))
        run("uv", "pip", "install", *options, "--reinstall-package", "torchx-core", f"{wheel}[docker]")

    def act(self, *words: str) -> Any:
        """Do it with the release that is installed now."""
        return json.loads(run(str(self.python), "-I", str(Path(__file__).with_name("acts.py")), *words))

    def submit(self, app_id: str, script: str, *, retries: int = 0) -> str:
        """Run the script as an app."""
        words = ("submit", self.scheduler, self.image, str(self.gate), app_id, str(retries), script)
        return str(self.act(*words))


def run(*words: str) -> str:
    """Run a program, and return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel of the release before, and that of this one."""
    commit = os.environ.get("UPGRADE_FROM", "HEAD~1")
    root = tmp_path_factory.mktemp("wheels")
    before = root / "source"
    before.mkdir()
    run("sh", "-c", f"git -C '{ROOT}' archive '{commit}' | tar -x -C '{before}'")
    return _wheel(before, root / "old"), _wheel(ROOT, root / "new")


def _wheel(source: Path, folder: Path) -> Path:
    options = ("--quiet", "--wheel", "--python", sys.executable, "--out-dir", str(folder))
    run("uv", "build", *options, str(source))
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(params=["local_cwd", "local_docker", "slurm"])
def site(
    request: pytest.FixtureRequest, private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """An environment beside each scheduler."""
    # One of the old release is there when the new one submits.
    monkeypatch.setenv("TORCHX_ZYGOTE_IDLE_S", "20")
    match request.param:
        case "local_docker":
            with _engine(private_home / "upgrade", monkeypatch):
                yield Site(tmp_path, "local_docker", SHELL_IMAGE)
        case "slurm":
            if reason := why_no_cluster():
                pytest.skip(reason)
            with running_cluster(nodes=4) as cluster, cluster.here():
                yield Site(tmp_path, "slurm", "")
        case scheduler:
            yield Site(tmp_path, scheduler, "")


@contextmanager
def _engine(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if reason := why_no_engine():
        pytest.skip(reason)
    engine = DockerEngine(root, free_number())
    try:
        engine.start()
        monkeypatch.delenv(SHARED_HOME)  # or the images would be kept there
        with closing(docker.DockerClient(base_url=engine.url)) as client:
            import_images(client)
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        yield
    finally:
        engine.stop()


def test_the_next_release_goes_on(site: Site, wheels: tuple[Path, Path]) -> None:
    """Every line once, one app per id, and nothing is left of any."""
    old, new = wheels
    site.install(old)
    talker = site.submit("talker", TALKER)
    stubborn = site.submit("stubborn", STUBBORN)
    restarts = site.submit("restarts", RESTARTS, retries=1)
    failed = site.submit("failed", FAILS)
    first = site.act("follow", talker, "", "half")
    before = {handle: site.act("follow", handle, "", "half") for handle in (stubborn, restarts)}
    end = site.act("follow", failed, "", "")
    told = site.act("status", failed)

    site.install(new)

    assert site.submit("talker", TALKER) == talker
    assert site.act("status", failed) == told
    # Docker promises no order between containers: whoever follows live may have seen another.
    assert sorted(site.act("follow", failed, "", "")["lines"]) == sorted(end["lines"])
    assert site.act("cancel", stubborn)["state"] == "CANCELLED"
    assert site.act("follow", stubborn, before[stubborn]["cursor"], "")["lines"] == []
    (site.gate / "go").touch()
    rest = site.act("follow", talker, first["cursor"], "")
    _each_line_once([*first["lines"], *rest["lines"]])
    again = site.act("follow", restarts, before[restarts]["cursor"], "")
    assert sorted(again["lines"]) == [[replica, 1, "stdout", "half"] for replica in (0, 1)]
    new_one = site.submit("new", "echo half")
    assert len(site.act("follow", new_one, "", "")["lines"]) == 2
    ends = {"talker": "SUCCEEDED", "stubborn": "CANCELLED", "restarts": "SUCCEEDED", "failed": "FAILED"}
    assert site.act("listed", site.scheduler) == {**ends, "new": "SUCCEEDED"}
    assert sorted(site.act("prune", site.scheduler)) == sorted([*ends, "new"])
    assert site.act("listed", site.scheduler) == {}


def _each_line_once(lines: list[list[Any]]) -> None:
    """What each stream of each replica shows is what the program wrote, in its order."""
    for replica in (0, 1):
        for stream, word in (("stdout", "out"), ("stderr", "err")):
            shown = [text for r, _, s, text in lines if (r, s) == (replica, stream) and text != "half"]
            assert shown == [f"{word} {i}" for i in range(2 * HALF)]
