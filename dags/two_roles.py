"""One app of two roles: a parameter server, and workers that fetch from it over the network.

The roles start together and stop together: when the workers are done the server, told so, ends too, and when
any replica fails the others are stopped.
"""

from __future__ import annotations

import sys
import tempfile

from airflow.sdk import DAG

from airflow_torchx import TorchXRunOperator
from torchx_core.specs import AppDef, Role

WORKERS = 2

# Serves one number to each worker, then ends. The port is found through a file that both roles know.
SERVER = """
import os, socket, sys
folder, workers = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
with socket.create_server(("127.0.0.1", 0)) as server:
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
with socket.create_connection(("127.0.0.1", int(open(address).read()))) as connection:
    print(f"INFO got {connection.recv(16).decode()}", flush=True)
"""

HOME = f"{tempfile.gettempdir()}/two_roles"
FOLDER = "{{ params.folder }}/{{ run_id }}"  # shared by both roles


def python_role(name: str, code: str, *args: str, num_replicas: int = 1) -> Role:
    """Return a role that runs the code."""
    return Role(
        name, image="", entrypoint=sys.executable, args=["-c", code, *args], num_replicas=num_replicas
    )


with DAG(
    dag_id="two_roles",
    description="A server and its workers",
    schedule=None,
    catchup=False,
    params={"folder": HOME},  # pyright: ignore[reportArgumentType]  # Airflow's own way to write it
    doc_md=__doc__,
):
    TorchXRunOperator(
        task_id="serve",
        app=AppDef(
            name="two-roles",
            roles=[
                python_role("server", SERVER, FOLDER, str(WORKERS)),
                python_role("worker", WORKER, FOLDER, num_replicas=WORKERS),
            ],
        ),
    )
