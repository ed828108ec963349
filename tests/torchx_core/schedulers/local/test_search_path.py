"""Where a local replica's program is looked for, and what it finds in PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from local_apps import app_of, lines_of

from torchx_core import Runner, get_runner
from torchx_core.errors import InvalidAppError
from torchx_core.specs import CfgVal

# TorchX's scheduler takes over signals, so it has a process of its own.
THEIRS = """
import os, sys
from torchx.schedulers.local_scheduler import create_scheduler
from torchx.specs import AppDef, Role

env = {"PATH": sys.argv[1]} if sys.argv[1] else {}
scheduler = create_scheduler("s")
app = AppDef("a", [Role("r", image="", entrypoint="train.sh", env=env)])
[replica] = scheduler.submit_dryrun(app, {"log_dir": sys.argv[2]}).request.role_params["r"]
print(scheduler._get_replica_env(replica)["PATH"])
scheduler.close()
"""


def program(place: Path, text: str, name: str = "train.sh") -> Path:
    """Put a program there that prints the text and its PATH, and return its directory."""
    place.mkdir(exist_ok=True)
    (place / name).write_text(f'#!/bin/sh\necho "{text}:$PATH"\n')
    (place / name).chmod(0o755)
    return place


@pytest.fixture
def cwd(tmp_path: Path) -> Iterator[Path]:
    """A working directory with a program in it."""
    with chdir(program(tmp_path / "cwd", "cwd")):
        yield Path.cwd()


def printed(
    runner: Runner, *, name: str = "train.sh", path: str = "", image: str = "", **cfg: CfgVal
) -> list[str]:
    """Return what the program says it is, and the directories of its PATH; an image is one of local_dir."""
    app = app_of(name, env={"PATH": path} if path else {}, image=image)
    [line] = lines_of(runner.follow(runner.run(app, "local_dir" if image else "local_cwd", cfg)))
    return line.text.split(os.pathsep)


@pytest.fixture
def extra(state_dir: Path, tmp_path: Path) -> Iterator[tuple[Runner, str]]:
    """A runner whose local schedulers have a directory of programs of their own, and that directory."""
    place = str(program(tmp_path / "extra", "extra", "extra.sh"))
    with get_runner("s", state_dir=str(state_dir), extra_paths=[place]) as runner:
        yield runner, place


def test_a_program_in_the_working_directory_needs_no_path(runner: Runner, cwd: Path) -> None:
    """It is found last, and so are the programs that it runs."""
    assert printed(runner) == ["cwd", *os.environ["PATH"].split(os.pathsep), str(cwd)]


def test_what_path_finds_comes_before_the_working_directory(
    runner: Runner, cwd: Path, tmp_path: Path
) -> None:
    """Unless prepend_cwd says so: then it is first, also before the role's own PATH."""
    own = str(program(tmp_path / "own", "own"))
    assert printed(runner, path=own)[0] == "own"
    said = printed(runner, path=own, prepend_cwd=True)
    assert said == ["cwd", str(cwd), own, *os.environ["PATH"].split(os.pathsep)]


def test_python_is_the_submitters_own(
    runner: Runner, cwd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it was started by an absolute path, as services are; a role's PATH goes before."""
    beside, usual = str(Path(sys.executable).parent), "/usr/bin:/bin"
    monkeypatch.setenv("PATH", usual)
    app = app_of("python", "-c", "import sys; print(sys.executable)")
    [line] = lines_of(runner.follow(runner.run(app, "local_cwd")))
    assert line.text == str(Path(beside, "python"))
    assert printed(runner) == ["cwd", beside, *usual.split(":"), str(cwd)]
    own = str(program(tmp_path / "own", "own", "python"))
    assert printed(runner, name="python", path=own)[:3] == ["own", own, beside]


def test_an_order_that_the_submitter_has_chosen_stays(
    runner: Runner, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose PATH has the directory of its Python has put it where it is to be."""
    chosen = f"/usr/bin:{Path(sys.executable).parent}:/bin"
    monkeypatch.setenv("PATH", chosen)
    assert printed(runner) == ["cwd", *chosen.split(":"), str(cwd)]


def test_a_roles_path_is_put_before_the_submitters(runner: Runner, cwd: Path, tmp_path: Path) -> None:
    """Programs that only the submitter's PATH has are found all the same, as with TorchX."""
    own = str(program(tmp_path / "own", "own", "other.sh"))
    said = printed(runner, name="other.sh", path=own)
    assert said == ["own", own, *os.environ["PATH"].split(os.pathsep), str(cwd)]
    assert printed(runner, name="train.sh", path=own)[0] == "cwd"


def test_extra_paths_come_before_a_roles_own(extra: tuple[Runner, str], cwd: Path, tmp_path: Path) -> None:
    """Programs there are found first; of what a role asks for, only prepend_cwd goes before them."""
    runner, place = extra
    own = str(program(tmp_path / "own", "own", "extra.sh"))
    submitters = os.environ["PATH"].split(os.pathsep)
    assert printed(runner, name="extra.sh", path=own) == ["extra", place, own, *submitters, str(cwd)]
    said = printed(runner, name="extra.sh", path=own, prepend_cwd=True)
    assert said == ["extra", str(cwd), place, own, *submitters]


def test_a_program_in_an_image_needs_no_path(extra: tuple[Runner, str], cwd: Path, tmp_path: Path) -> None:
    """The image is where an app of local_dir works: its programs come first, then what PATH finds."""
    runner, place = extra
    image = str(program(tmp_path / "image", "image"))
    own = str(program(tmp_path / "own", "own"))
    submitters = os.environ["PATH"].split(os.pathsep)
    assert printed(runner, image=image, path=own) == ["image", place, own, *submitters, image]
    assert printed(runner, name="extra.sh", image=image)[0] == "extra"
    assert printed(runner, image=image, path=own, prepend_cwd=True)[:3] == ["image", image, place]
    assert str(cwd) not in printed(runner, image=image)


@pytest.mark.usefixtures("cwd")
@pytest.mark.parametrize("own", ["", "/own"])
def test_torchx_has_the_same_directories(runner: Runner, tmp_path: Path, own: str) -> None:
    """In another order: the working directory comes before the submitter's, though it says last."""
    words = [sys.executable, "-c", THEIRS, own, str(tmp_path / "logs")]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    theirs = done.stdout.strip().split(os.pathsep)
    ours = printed(runner, path=own)[1:]
    assert sorted(ours) == sorted(theirs)
    assert not own or (ours[0], theirs[0]) == (own, own)


def test_a_program_that_nothing_finds(runner: Runner, cwd: Path) -> None:
    """The submit says where it looked, the working directory included."""
    with pytest.raises(InvalidAppError, match=f"no such program on this host: 'no.sh'; looked in .*{cwd}"):
        runner.run(app_of("no.sh"), "local_cwd")
