"""The apps that learn handwritten digits, for ``train_digits.py`` and ``train_digits_flow.py`` alike.

What the apps do is in ``digits/``. With ``SCHEDULER=local_docker`` in the environment they run in containers,
with ``SCHEDULER=slurm`` as jobs of a Slurm cluster.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchx_core.specs import AppDef, BindMount, CfgVal, Role, macros

__all__ = ["SCHEDULER", "Digits"]

SCHEDULER = os.environ.get("SCHEDULER", "local_cwd")
IN_CONTAINERS = SCHEDULER == "local_docker"
PROGRAMS = Path(__file__).parent / "digits"
IMAGE = "torchx-demo" if IN_CONTAINERS else ""
REPLICAS = 2


@dataclass(frozen=True)
class Digits:
    """The apps of one run."""

    folder: str
    """Of this run alone, so that it never meets the files of another."""
    home: str
    """It lies in this one, which containers share with each other and with you."""

    def prepare(self) -> AppDef:
        """Split the digits into those to learn from and those held out."""
        return self._app("prepare", "--out", self.folder)

    def train(self) -> AppDef:
        """Train a model on several replicas; the result has its file and the losses."""
        return self._app(
            "train",
            *("--data", f"{self.folder}/train.npz"),
            *("--model", f"{self.folder}/model.pt"),
            # The app id is in the name because a rendezvous file serves one start of one app.
            *("--rendezvous", f"{self.folder}/rendezvous-{macros.app_id}"),
            *("--rank", macros.replica_id, "--replicas", str(REPLICAS)),
            replicas=REPLICAS,
        )

    def evaluate(self, model: str) -> AppDef:
        """Measure the model on the digits held out; fail when it is not good enough."""
        return self._app(
            "evaluate",
            *("--data", f"{self.folder}/held_out.npz"),
            *("--model", model),
            *("--at-least", "0.9"),
        )

    @property
    def cfg(self) -> dict[str, CfgVal]:
        """The scheduler's options: logs are kept in the run's folder, but for those of containers."""
        return {} if IN_CONTAINERS else {"log_dir": f"{self.folder}/logs"}

    def report(self, training: Mapping[str, Any], evaluation: Mapping[str, Any]) -> dict[str, Any]:
        """Write what the run came to where people and ``make demo`` find it; return it."""
        outcome = {**evaluation, "loss": training["loss"], "model": training["model"]}
        if not IN_CONTAINERS:  # a container's log is the engine's to keep
            outcome["logs"] = f"{self.folder}/logs"
        Path(self.folder, "report.json").write_text(json.dumps(outcome, indent=2))
        print(f"accuracy {outcome['accuracy']:.1%}, model in {outcome['model']}")
        return outcome

    def _app(self, program: str, *args: str, replicas: int = 1) -> AppDef:
        """Return the app that runs a program of ``digits/`` with this Python."""
        role = Role(
            name=program,
            image=IMAGE,
            entrypoint=sys.executable,
            args=[str(PROGRAMS / f"{program}.py"), *args],
            env={"PYTHONUNBUFFERED": "1"},
            num_replicas=replicas,
            mounts=[BindMount(src_path=self.home, dst_path=self.home)] if IN_CONTAINERS else [],
        )
        return AppDef(name=f"digits-{program}", roles=[role])
