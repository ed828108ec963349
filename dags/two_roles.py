"""One app of two roles: a parameter server, and workers that fetch from it over the network.

The roles start together and stop together: when the workers are done the server, told so, ends too, and when
any replica fails the others are stopped. Each replica has the host of the first role's first replica, the
server here, in ``TORCHX_RANK0_HOST``. With ``SCHEDULER=slurm`` in Airflow's environment the app is a job of a
Slurm cluster; with ``SCHEDULER=local_docker``, and an image with Python in ``IMAGE``, the replicas are
containers on a network of the app's own, and share the parameter ``folder``, which must be there.
"""

from __future__ import annotations

import os
import tempfile

from airflow.sdk import DAG

from airflow_torchx import TorchXRunOperator
from torchx_core.specs import AppDef, BindMount, Role

SCHEDULER = os.environ.get("SCHEDULER", "local_cwd")
IN_CONTAINERS = SCHEDULER == "local_docker"
WORKERS = 2

# Serves one number to each worker, then ends. The port is found through a file that both roles know.
SERVER = """
import os, socket, sys
folder, workers = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
with socket.create_server((os.environ["TORCHX_RANK0_HOST"], 0)) as server:
    address = os.path.join(folder, "port")
    with open(address + ".new", "w") as file:
        file.write(str(server.getsockname()[1]))
    os.replace(address + ".new", address)
    print(f"INFO serving {workers} workers", flush=True)
    for _ in range(workers):
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"42")
"""
WORKER = """
import os, socket, sys, time
address = os.path.join(sys.argv[1], "port")
while not os.path.exists(address):
    time.sleep(0.05)
with socket.create_connection((os.environ["TORCHX_RANK0_HOST"], int(open(address).read()))) as connection:
    print(f"INFO got {connection.recv(16).decode()}", flush=True)
"""

HOME = "{{ params.folder }}"  # shared by both roles
FOLDER = f"{HOME}/{{{{ run_id }}}}"


def python_role(name: str, code: str, *args: str, num_replicas: int = 1) -> Role:
    """Return a role that runs the code."""
    return Role(
        name,
        image=os.environ.get("IMAGE", ""),
        entrypoint="python",  # on this host the one that Airflow runs with
        args=["-c", code, *args],
        num_replicas=num_replicas,
        mounts=[BindMount(src_path=HOME, dst_path=HOME)] if IN_CONTAINERS else [],
    )


with DAG(
    dag_id="two_roles",
    description="A server and its workers",
    schedule=None,
    catchup=False,
    params={"folder": f"{tempfile.gettempdir()}/two_roles"},  # pyright: ignore[reportArgumentType]  # Airflow's own way to write it
    doc_md=__doc__,
):
    TorchXRunOperator(
        task_id="serve",
        scheduler=SCHEDULER,
        app=AppDef(
            name="two-roles",
            roles=[
                python_role("server", SERVER, FOLDER, str(WORKERS)),
                python_role("worker", WORKER, FOLDER, num_replicas=WORKERS),
            ],
        ),
    )
