"""Metric sinks written by the real clients, and what they hold, read in the clients' own environment."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from torchx_core import AppDef, Role

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-sinks" / "bin" / "python"
APP = Path(__file__).with_name("sink_app.py")
READER = Path(__file__).with_name("sink_reader.py")

Value: TypeAlias = tuple[str, float, int]


def require_clients() -> None:
    """Skip where there are none."""
    if not PYTHON.exists():
        pytest.skip("the clients of metric sinks are not installed; make .venv-sinks/sinks.stamp")


@dataclass(frozen=True, slots=True)
class Place:
    """One sink, and how to read it."""

    kind: str
    target: str

    @property
    def named(self) -> str:
        """What the environment says."""
        return f"{self.kind}:{self.target}"

    def read(self) -> dict[str, Any]:
        """Return its runs by name; none where it cannot be read yet, because it is just being made."""
        env = {**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true", "TMPDIR": str(Path.cwd())}
        words = [str(PYTHON), str(READER), self.kind, self.target]
        read = subprocess.run(words, env=env, capture_output=True, check=False)
        runs: dict[str, Any] = json.loads(read.stdout) if read.returncode == 0 else {}
        return runs


def app_that_reports(witness: Path, count: int, *modes: str, sinks: str, **env: str) -> AppDef:
    """Return an app of one replica; ``wait`` among the modes lets it have a second attempt."""
    role = Role(
        name="main",
        image="",
        entrypoint=str(PYTHON),
        args=[str(APP), str(witness), str(count), *modes],
        env={
            "TORCHX_METRIC_SINKS": sinks,
            "MLFLOW_ALLOW_FILE_STORE": "true",
            "TMPDIR": str(witness.parent),
            **env,
        },
        max_retries=int("wait" in modes),
    )
    return AppDef("app", [role])


def reported(witness: Path) -> list[Value]:
    """Return what the app has written down, in order of names and steps."""
    lines = witness.read_text().splitlines() if witness.exists() else []
    return in_order([json.loads(line) for line in lines])


def in_order(values: Sequence[Sequence[Any]], *, single: bool = False) -> list[Value]:
    """Return the values in an order of their own, without those of the result; NaN is equal to itself.

    Args:
        values: Name, value and step.
        single: Whether values are as exact as TensorBoard's, whose numbers have 32 bits.
    """
    kept = [(name, _number(value, single=single), step) for name, value, step in values]
    return sorted((each for each in kept if not each[0].startswith("result/")), key=repr)


def _number(value: Any, *, single: bool) -> Any:
    number = float(value)
    if number != number:  # noqa: PLR0124  (NaN)
        return "NaN"
    return struct.unpack("f", struct.pack("f", number))[0] if single else number
