"""Train on a GPU if there is one, and register the model in MLflow if it is good enough, by another Python.

Airflow's environment need not have what a step needs. Each app names its Python: training that of
``TRAIN_PYTHON``, registering that of ``MLFLOW_PYTHON``, which has MLflow and ``torchx-core``; by default both
run with the Python that Airflow runs with. MLflow's store is a database in a file; any tracking URI will do.

Training asks for a GPU. With ``auto_set_cuda_visible_devices`` the scheduler holds one for the app, so that
two apps never share it, and names it in ``CUDA_VISIBLE_DEVICES``. A host without a GPU runs it all the same,
with a warning. A model below ``at_least`` fails its run by exit code 3, which no retry mends, so that Airflow
makes none.
"""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta

from airflow.sdk import DAG, Param, chain

from airflow_torchx import TorchXRunOperator
from torchx_core.specs import AppDef, Resource, Role

SCHEDULER = os.environ.get("SCHEDULER", "local_cwd")
HOME = f"{tempfile.gettempdir()}/model_registry"
FOLDER = "{{ params.folder }}/{{ run_id }}"

TRAIN = """
import json, os, sys
from torchx_core.runtime import report_result
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
print("INFO GPUs:", os.environ.get("CUDA_VISIBLE_DEVICES", "not told"), flush=True)
model = os.path.join(folder, "model.json")
with open(model, "w") as file:
    json.dump({"weights": [0.5, 0.25]}, file)  # stands for what training came to
report_result({"model": model, "accuracy": float(sys.argv[2])})
"""

REGISTER = """
import sys
store, model, accuracy, at_least = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
if accuracy < at_least:
    print(f"ERROR accuracy {accuracy:.3f} is below {at_least:.3f}", file=sys.stderr)
    sys.exit(3)
import mlflow
from torchx_core.runtime import report_result
mlflow.set_tracking_uri(store)
client = mlflow.MlflowClient()
with mlflow.start_run() as run:
    mlflow.log_metric("accuracy", accuracy)
    mlflow.log_artifact(model)
if not client.search_registered_models("name = 'digits'"):
    client.create_registered_model("digits")
source = f"{run.info.artifact_uri}/model.json"
version = client.create_model_version("digits", source, run.info.run_id).version
client.set_registered_model_alias("digits", "champion", version)
print(f"INFO digits version {version} is the champion", flush=True)
report_result({"version": int(version)})
"""


def run(name: str, program: str, *args: str, python: str, gpu: int = 0) -> TorchXRunOperator:
    """Return the task that runs the program, by the Python that the variable names."""
    role = Role(
        name=name,
        image="",
        entrypoint=os.environ.get(python, "python"),
        args=["-c", program, *args],
        resource=Resource(cpu=-1, gpu=gpu, memMB=-1),
    )
    return TorchXRunOperator(
        task_id=name,
        app=AppDef(name=f"registry-{name}", roles=[role]),
        scheduler=SCHEDULER,
        cfg={"auto_set_cuda_visible_devices": True} if gpu and SCHEDULER == "local_cwd" else {},
        fail_on_exit_codes=(2, 3, 126, 127),
        execution_timeout=timedelta(hours=1),
    )


with DAG(
    dag_id="model_registry",
    description="A model that is good enough becomes the champion",
    schedule=None,
    catchup=False,
    params={
        "folder": Param(HOME, type="string", description="where files go"),  # pyright: ignore[reportArgumentType]  # Airflow's own way to write it
        "accuracy": Param(0.93, type="number", description="what training comes to, in this example"),  # pyright: ignore[reportArgumentType]  # likewise
        "at_least": Param(0.9, type="number", description="the gate"),  # pyright: ignore[reportArgumentType]  # likewise
    },
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
    doc_md=__doc__,
):
    train = run("train", TRAIN, FOLDER, "{{ params.accuracy }}", python="TRAIN_PYTHON", gpu=1)
    register = run(
        "register",
        REGISTER,
        "sqlite:///{{ params.folder }}/mlflow.db",
        "{{ ti.xcom_pull('train')['model'] }}",
        "{{ ti.xcom_pull('train')['accuracy'] }}",
        "{{ params.at_least }}",
        python="MLFLOW_PYTHON",
    )
    chain(train, register)
