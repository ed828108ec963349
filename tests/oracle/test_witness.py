from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import witness

STRUCK = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from witness import Notes, Witness

add = Notes.add

def add_and_be_struck(notes, what, **facts):
    add(notes, what, **facts)
    if what in ("exit", "die"):
        os.kill(os.getpid(), signal.SIGTERM)

Notes.add = add_and_be_struck
Witness(sys.argv[1], "r", "0").run()
"""


@pytest.mark.parametrize(("step", "end"), [(["exit", 7], 7), (["die", "SIGUSR1"], -signal.SIGUSR1)])
def test_it_ends_as_its_last_note_says(tmp_path: Path, step: list[object], end: int) -> None:
    """The witness ends as it has noted, also when a SIGTERM comes after the note: the judge compares both."""
    shutil.copy(witness.__file__, tmp_path / "witness.py")
    (tmp_path / "script.json").write_text(json.dumps({"r/0": [[step]]}))
    assert subprocess.run([sys.executable, "-c", STRUCK, str(tmp_path)], check=False).returncode == end
