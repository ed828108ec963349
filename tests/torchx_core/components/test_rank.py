"""What a program sees, and what others see of it, is the same as if Python had started it."""

from __future__ import annotations

import compileall
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

TEXT = files("torchx_core.components.programs").joinpath("rank.py").read_text("utf-8")
START = "-cimport os; exec(os.environ.pop('TORCHX_RANK_PROGRAM'))"

SHOW = """
import json, os, sys
main = sys.modules["__main__"]
shown = {name: repr(value) for name, value in sorted(vars(main).items()) if name.startswith("__")}
print(json.dumps([sys.argv, sys.orig_argv[1:], sys.path, shown, vars(main) is globals(), __name__]))
print(sorted(name for name in os.environ if name.startswith("TORCHX")))
"""
PROGRAMS = {
    "show": SHOW,
    "sibling": "import helper; print(helper.__file__, helper.VALUE)",
    "raises": "def f():\n    raise ValueError('no data\\nat all')\n\nf()\n",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as err:\n    raise KeyError('k') from err\n",
    "group": "raise ExceptionGroup('several', [ValueError('one'), TypeError('two')])\n",
    "syntax": "x = 1\nif x\n    pass\n",
    "exits": "import sys; sys.exit(7)",
    "exits_well": "import sys; print('end'); sys.exit()",
    "exits_with_words": "import sys; sys.exit('no such thing')",
    "exits_hard": "import os; os._exit(9)",
    "interrupted": "raise KeyboardInterrupt",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "own_hook": "import sys\nsys.excepthook = lambda *err: print('hook', err[1], err[2].tb_lineno)\nx.y\n",
    "at_exit": "import atexit\nNAME = 'n'\natexit.register(lambda: print(NAME))\nraise ValueError(1)\n",
    "late_thread": "import threading, time\nX = 1\nthreading.Timer(0.2, lambda: print(X)).start()\n",
    "pickles": "import pickle\nclass A: pass\nprint(pickle.loads(pickle.dumps(A)) is A, A.__module__)\n",
    "spawns": """
import multiprocessing as mp
def work(x):
    return x + 1
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1]))
""",
    "forks": """
import os
pid = os.fork()
if pid == 0:
    raise ValueError("the child's")
os.waitpid(pid, 0)
""",
    "latin": "# -*- coding: latin-1 -*-\nprint(ascii('\\xe9'))\n",
    "no_future": "def f(x: undefined): pass\n",
    "annotated": "x: int = 1\nprint(__annotations__)\n",
    "recursion": "def f(): f()\nf()\n",
    "unprintable": "class E(Exception):\n    def __str__(self): raise OSError\nraise E\n",
    "surrogate": "raise ValueError('\\ud800')\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with every program, some of them in other forms too."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "helper.py").write_text("VALUE = 3\n")
    (place / "json.py").write_text(
        "raise ImportError('a module of the program, not of the standard library')\n"
    )
    for name, text in PROGRAMS.items():
        (place / f"{name}.py").write_text(text, encoding="latin-1")
    (place / "json.py").unlink()
    (tmp_path / "link.py").symlink_to(place / "sibling.py")
    package = place / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("VALUE = 4\n")
    (package / "__main__.py").write_text(f"from package import part\nprint(part.VALUE){SHOW}")
    (package / "relative.py").write_text("from .part import VALUE\nprint(VALUE, __package__)\nVALUE.x\n")
    with zipfile.ZipFile(place / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
        archive.writestr("inside.py", "")
    compileall.compile_file(place / "show.py", legacy=True, quiet=1)
    return tmp_path


def ended(words: list[str], folder: Path, **env: str) -> tuple[int, str, str]:
    """Run Python and return how it ended and what it printed, without what is another one each time."""
    run = subprocess.run(
        [sys.executable, "-u", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    out, err = (re.sub(r"0x[0-9a-f]+|repeated \d+", "…", text) for text in (run.stdout, run.stderr))
    return run.returncode, out, err


def ended_as_rank(words: list[str], folder: Path, **env: str) -> tuple[int, str, str]:
    """Do the same as torchrun starts it."""
    return ended([START, *words], folder, TORCHX_RANK_PROGRAM=TEXT, **env)


WORDS = [
    *([f"place/{name}.py"] for name in PROGRAMS),
    ["./place/show.py", "--lr", "1", "", "a b"],
    ["place/show.pyc"],
    ["link.py"],
    ["place/none.py"],
    ["place/package"],
    ["place/archive.zip", "x"],
    ["place"],
    ["-m", "place.show", "-x"],
    ["-m", "place.package", "-m"],
    ["-m", "place.package.relative"],
    ["-m", "place.raises"],
    ["-m", "place.exits"],
    ["-m", "nothing.such"],
    ["-m", "this"],
]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_it_is_as_if_python_had_started_it(words: list[str], folder: Path) -> None:
    """What it sees, what it prints, tracebacks among it, and how it ends."""
    if words == ["-m", "place.package", "-m"]:
        (folder / "package").symlink_to(folder / "place" / "package")
    expected = ended(words, folder)
    assert ended_as_rank(words, folder) == expected
    assert ended_as_rank(words, folder, TORCHELASTIC_ERROR_FILE=f"{folder}/e", RANK="0") == expected


@pytest.mark.parametrize("flag", [{"PYTHONSAFEPATH": "1"}, {"PYTHONPATH": "elsewhere"}], ids=str)
@pytest.mark.parametrize(
    "words", [["place/show.py"], ["place/sibling.py"], ["-m", "place.show"]], ids=" ".join
)
def test_python_s_own_settings_hold(words: list[str], flag: dict[str, str], folder: Path) -> None:
    """Where modules are looked for among them."""
    assert ended_as_rank(words, folder, **flag) == ended(words, folder, **flag)


def error_of(folder: Path, *words: str, **env: str) -> Any:
    """Run the program as a rank that fails, and return what it has left for its scheduler."""
    ended_as_rank(list(words), folder, TORCHX_FIRST_ERROR_FILE=f"{folder}/first.json", RANK="3", **env)
    return json.loads((folder / "first.json").read_text())["message"]


def test_an_exception_is_left_for_scheduler_and_torchrun(folder: Path) -> None:
    """In torchelastic's form, with its rank and the time, to the fraction of a second."""
    error = error_of(folder, "place/raises.py", TORCHELASTIC_ERROR_FILE=f"{folder}/own.json")
    assert json.loads((folder / "own.json").read_text())["message"] == error
    extra = error["extraInfo"]
    assert (error["message"], error["errorCode"], extra["rank"]) == ("ValueError: no data\nat all", 1, "3")
    assert extra["timestamp"] == int(extra["time"])
    assert extra["py_callstack"].startswith("Traceback (most recent call last):\n")
    assert f'File "{folder}/place/raises.py", line 2, in f' in extra["py_callstack"]
    assert "<string>" not in extra["py_callstack"]


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        ("exits", "SystemExit: 7", 7),
        ("exits_with_words", "SystemExit: no such thing", 1),
        ("syntax", "SyntaxError: expected ':'", 1),
        ("none", "SystemExit: 2", 2),
        ("surrogate", "ValueError: \\ud800", 1),
        ("unprintable", "E: <exception str() failed>", 1),
    ],
)
def test_whatever_ends_it_badly_is_left(folder: Path, name: str, message: str, code: int) -> None:
    """An exit is, with where it came from; and nothing that it says keeps it from being read."""
    error = error_of(folder, f"place/{name}.py")
    assert (error["message"].splitlines()[-1].removeprefix("__main__."), error["errorCode"]) == (
        message,
        code,
    )


@pytest.mark.parametrize("name", ["show", "exits_well", "forks", "exits_hard", "terminated"])
def test_nothing_is_left_of_a_good_end_or_a_sudden_one(folder: Path, name: str) -> None:
    """Nor is what a child of the program raises the rank's."""
    env = {"TORCHX_FIRST_ERROR_FILE": f"{folder}/first.json", "TORCHELASTIC_ERROR_FILE": f"{folder}/own.json"}
    ended_as_rank([f"place/{name}.py"], folder, **env)
    assert not (folder / "first.json").exists()
    assert not (folder / "own.json").exists()


def test_the_first_rank_that_fails_is_the_one_that_counts(folder: Path) -> None:
    """For the scheduler, and for torchrun, which takes the lowest rank of those that fail in one second."""
    first = error_of(folder, "place/raises.py", TORCHELASTIC_ERROR_FILE=f"{folder}/3.json")
    assert error_of(folder, "place/exits.py", TORCHELASTIC_ERROR_FILE=f"{folder}/0.json") == first
    theirs = json.loads((folder / "0.json").read_text())["message"]
    assert theirs["message"] == "SystemExit: 7"
    assert theirs["extraInfo"]["timestamp"] > theirs["extraInfo"]["time"]


OWN_WORDS = """
import json, os, sys
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({}, file)
sys.exit(1)
"""


@pytest.mark.parametrize(
    "own", ["own words", {"extraInfo": {"py_callstack": "t", "timestamp": "1"}, "message": "m"}]
)
def test_what_the_program_has_written_itself_stays(folder: Path, own: Any) -> None:
    """As by torchelastic's @record; who and when is added for the scheduler where there is room."""
    (folder / "own.py").write_text(OWN_WORDS.format({"message": own}))
    error = error_of(folder, "own.py", TORCHELASTIC_ERROR_FILE=f"{folder}/own.json")
    assert json.loads((folder / "own.json").read_text())["message"] == own
    if isinstance(own, dict):
        assert (error["extraInfo"].pop("rank"), error.pop("errorCode")) == ("3", 1)
        assert error["extraInfo"].pop("time") > 1
    assert error == own


def test_a_place_that_cannot_be_written_to_changes_nothing(folder: Path) -> None:
    """Nor does a deadline that is none."""
    env = {"TORCHX_FIRST_ERROR_FILE": "/dev/null/x", "TORCHELASTIC_ERROR_FILE": "/dev/null/y"}
    words = ["place/raises.py"]
    for deadline in ("soon", "1e400", "-1", ""):
        assert ended_as_rank(words, folder, TORCHX_DEADLINE=deadline, **env) == ended(words, folder)


def test_a_crash_of_native_code_shows_where(folder: Path) -> None:
    """The signal stays what kills it."""
    (folder / "crash.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    code, _, err = ended_as_rank(["crash.py"], folder)
    assert code == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in err
    assert 'crash.py", line 2' in err


def test_nothing_in_the_program_is_a_macro() -> None:
    """It is an argument, in which macros are filled in, and torchrun's are as well."""
    assert "$" not in TEXT
