"""What TorchX's pages say of running apps: the same program, with TorchX and with this package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).parents[2] / "support"
PROGRAM = SUPPORT / "torchx_program.py"
CASES = [
    name
    for part in ("apps", "environment", "runner")
    for name in re.findall(
        r"^@case\ndef (\w+)", (SUPPORT / f"torchx_cases_{part}.py").read_text(), re.MULTILINE
    )
]
OURS_ALONE = {
    # The page has it; the installed TorchX does not look for `~`.
    "a_component_of_a_file_at_home": ["HEY", "HEY"],
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return what each of the two packages answers."""
    programs: dict[str, subprocess.Popen[str]] = {}
    for package in ("torchx", "torchx_core"):
        place = tmp_path_factory.mktemp(package)
        programs[package] = subprocess.Popen(
            [sys.executable, PROGRAM, package, place],
            env={**os.environ, "TORCHX_STATE_DIR": str(place / "state")},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    return {package: json.loads(program.communicate()[0]) for package, program in programs.items()}


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_that_of_torchx(answers: dict[str, dict[str, Any]], case: str) -> None:
    """The same call, the same answer."""
    assert answers["torchx_core"][case] == OURS_ALONE.get(case, answers["torchx"][case])


def test_every_case_was_asked(answers: dict[str, dict[str, Any]]) -> None:
    """Of both."""
    assert list(answers["torchx"]) == list(answers["torchx_core"]) == CASES
