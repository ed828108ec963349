"""Try several learning rates at once, and cancel those that fall behind: a Prefect flow that stops by metric.

Each setting is an app of its own. Whenever all that are left have come to the next rung, a number of steps,
the worse half is cancelled (successive halving), so that most of the time goes into the settings that are
worth it. ``python early_stopping_flow.py`` runs it. With ``SCHEDULER=slurm`` in the environment the apps are
jobs of a Slurm cluster; with ``SCHEDULER=local_docker``, and an image with Python and torchx-core in
``IMAGE``, they run in containers.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from prefect import flow

from prefect_torchx import TorchXJob
from torchx_core import get_runner
from torchx_core.schedulers import Metric
from torchx_core.specs import AppDef, Role

SCHEDULER = os.environ.get("SCHEDULER", "local_cwd")
RUNGS = (3, 6)
STEPS = 12

# Stands for a training program: it knows nothing of the others, and reports how well it does.
TRAIN = """
import sys, time
from torchx_core.runtime import report_metric, report_result
rate, steps = float(sys.argv[1]), int(sys.argv[2])
loss = 1.0
for step in range(1, steps + 1):
    loss = loss * (1 - rate) + 4 * rate**2
    print(f"INFO step {step}: loss {loss:.3f}", flush=True)
    report_metric("loss", loss, step)
    time.sleep(0.5)
report_result({"rate": rate, "loss": loss})
"""


def training(rate: float) -> AppDef:
    """Return the app that tries one learning rate."""
    args = ["-c", TRAIN, str(rate), str(STEPS)]
    return AppDef("trial", [Role("trainer", os.environ.get("IMAGE", ""), entrypoint="python", args=args)])


def loss_at(handle: str, step: int) -> float:
    """Return the app's loss at the step, as soon as it has come to that.

    Raises:
        RuntimeError: It has ended before.
    """
    with get_runner() as runner:
        for batch in runner.follow(handle, logs=False):
            for event in batch.events:
                if isinstance(event, Metric) and event.name == "loss" and event.step == step:
                    return event.value
    raise RuntimeError(f"{handle} has ended before step {step}")


@flow(name="early-stopping", log_prints=True)
def early_stopping(rates: tuple[float, ...] = (0.01, 0.05, 0.1, 0.3)) -> dict[str, float]:
    """Return what the best learning rate has come to."""
    with ExitStack() as trials:
        runs = {
            rate: trials.enter_context(TorchXJob(app=training(rate), scheduler=SCHEDULER).trigger())
            for rate in rates
        }
        for rung in RUNGS:
            losses = {rate: loss_at(run.handle, rung) for rate, run in runs.items()}
            ranking = sorted(losses, key=lambda rate: losses[rate])
            for rate in ranking[(len(ranking) + 1) // 2 :]:
                reason = f"loss {losses[rate]:.3f} at step {rung}, best {losses[ranking[0]]:.3f}"
                print(f"{rate} is out: {reason}")
                runs.pop(rate).cancel(reason)
        (best,) = runs.values()
        best.wait_for_completion()
        result: dict[str, float] = best.fetch_result()
    print(f"best learning rate: {result['rate']} with loss {result['loss']:.3f}")
    return result


if __name__ == "__main__":
    early_stopping()
