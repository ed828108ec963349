"""Train anew each night, publish the model if it is better, and score a batch with whatever is published.

``nightly_retrain`` has one run per day, also for days that were missed: Airflow makes those by itself, with
``catchup``; ``airflow backfill create --dag-id nightly_retrain --from-date … --to-date …`` makes others.
Each run learns from its own day's data. Training is killed in its first attempt, as by a node that goes:
the scheduler starts it again, and it resumes from its checkpoint. A model that is no better than the
published one ends the run there. ``batch_inference`` runs whenever a model is published, an app per shard.

With ``SCHEDULER=slurm`` in Airflow's environment the apps are jobs of a Slurm cluster; with
``SCHEDULER=local_docker``, and an image with Python and torchx-core in ``IMAGE``, they run in containers.
They share the directory ``NIGHTLY_RETRAIN_HOME``; for containers make it first.
"""

from __future__ import annotations

import json
import os
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, task

from airflow_torchx import TorchXRunOperator
from torchx_core.specs import AppDef, BindMount, Role

SCHEDULER = os.environ.get("SCHEDULER", "local_cwd")
IN_CONTAINERS = SCHEDULER == "local_docker"
HOME = os.environ.get("NIGHTLY_RETRAIN_HOME", f"{tempfile.gettempdir()}/nightly_retrain")
DAY = "{{ dag_run.run_after | ds }}"  # a run that the API triggers has no logical date
MODEL = Asset("nightly_model")
SHARDS = 3

# Learns a slope by gradient descent, from a checkpoint if there is one.
TRAIN = """
import json, os, random, signal, sys
from torchx_core.runtime import report_metric, report_progress, report_result
folder, day = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
checkpoint, model = os.path.join(folder, "checkpoint.json"), os.path.join(folder, "model.json")
epoch, slope = 0, 0.0
if os.path.exists(checkpoint):
    epoch, slope = json.load(open(checkpoint))
    print(f"INFO resumes at epoch {epoch}", flush=True)
numbers = random.Random(day)
points = [(x, 3 * x + numbers.gauss(0, 0.1)) for x in (numbers.random() for _ in range(200))]
while epoch < 30:
    slope -= 0.5 * sum(2 * x * (slope * x - y) for x, y in points) / len(points)
    loss, epoch = sum((slope * x - y) ** 2 for x, y in points) / len(points), epoch + 1
    with open(checkpoint + ".new", "w") as file:
        json.dump([epoch, slope], file)
    os.replace(checkpoint + ".new", checkpoint)
    report_metric("loss", loss, epoch)
    report_progress(epoch / 30)
    print(f"INFO epoch {epoch}: loss {loss:.4f}", flush=True)
    if epoch == 10 and os.environ["TORCHX_ATTEMPT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
with open(model, "w") as file:
    json.dump({"slope": slope}, file)
report_result({"model": model, "loss": loss})
"""

SCORE = """
import json, sys
from torchx_core.runtime import report_result
published, shard, shards = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
slope = json.load(open(json.load(open(published))["model"]))["slope"]
scores = [slope * x for x in range(shard, 30, shards)]
print(f"INFO {len(scores)} rows", flush=True)
report_result({"rows": len(scores), "sum": sum(scores)})
"""


def app(name: str, program: str, *args: str, max_retries: int = 0) -> AppDef:
    """Return the app that runs the program, in one replica."""
    role = Role(
        name=name,
        image=os.environ.get("IMAGE", ""),
        entrypoint="python",  # on this host the one that Airflow runs with
        args=["-c", program, *args],
        max_retries=max_retries,
        mounts=[BindMount(src_path=HOME, dst_path=HOME)] if IN_CONTAINERS else [],
    )
    return AppDef(name=f"nightly-{name}", roles=[role])


@task.short_circuit
def is_better(trained: dict[str, Any]) -> bool:
    """Return whether the model is better than the published one; if it is not, nothing follows."""
    published = Path(HOME, "published.json")
    best = json.loads(published.read_text())["loss"] if published.exists() else float("inf")
    print(f"loss {trained['loss']:.5f}, published {best:.5f}")
    return bool(trained["loss"] < best)


@task(outlets=[MODEL])
def publish(trained: dict[str, Any]) -> None:
    """Make the model the one that others use, in one step."""
    fresh = Path(HOME, "published.json.new")
    fresh.write_text(json.dumps(trained))
    fresh.replace(Path(HOME, "published.json"))
    print(f"published {trained['model']}")


@task
def total(shards: list[dict[str, float]]) -> float:
    """Add up what the shards came to."""
    rows, scores = sum(each["rows"] for each in shards), sum(each["sum"] for each in shards)
    print(f"scored {rows:.0f} rows, sum {scores:.1f}")
    return scores


with DAG(
    dag_id="nightly_retrain",
    description="A better model each night, or none",
    schedule="@daily",
    start_date=datetime(2026, 11, 1),  # noqa: DTZ001  # Airflow takes it for its own time zone
    catchup=True,
    max_active_runs=1,  # a day's model is compared with that of the day before
    is_paused_upon_creation=True,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=5)},
    doc_md=__doc__,
):
    train = TorchXRunOperator(
        task_id="train",
        app=app("train", TRAIN, f"{HOME}/{DAY}", DAY, max_retries=2),
        scheduler=SCHEDULER,
        deferrable=True,
        execution_timeout=timedelta(hours=2),
    )
    is_better(train.output) >> publish(train.output)  # type: ignore[arg-type]  # XComArgs, filled in later

with DAG(
    dag_id="batch_inference",
    description="Score everything with the published model",
    schedule=[MODEL],
    catchup=False,
    doc_md=__doc__,
):
    published = f"{HOME}/published.json"
    shards = TorchXRunOperator.partial(task_id="score", scheduler=SCHEDULER, deferrable=True).expand(
        app=[app("score", SCORE, published, str(shard), str(SHARDS)).to_dict() for shard in range(SHARDS)]
    )
    total(shards.output)  # type: ignore[arg-type]  # an XComArg, filled in later
