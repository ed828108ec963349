"""Starts the processes of flow runs quickly: it has imported Prefect, and forks one for each request.

``python prefect_host.py SOCKET`` says ``ready`` on stdout and serves until it is killed. A request is a line
of JSON with the process's module and words, its variables and the file for its output; the answer is its
process id. The process leads a session of its own and runs what a worker of Prefect would start, ``python -m
prefect.engine``, or is itself a worker, ``python -m prefect worker start``.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import signal
import socket
import sys
import threading

import prefect.cli
import prefect.cli.worker
import prefect.context
import prefect.flow_engine
import prefect_program  # noqa: F401  # what the flows import is there when they start

import prefect_torchx.worker  # noqa: F401  # likewise

__all__: list[str] = []


def _serve(path: str) -> dict[str, object]:
    """Serve; return in each forked process, with what was asked for."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(64)
    assert threading.active_count() == 1, "only a process of one thread can be copied"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        client, _ = server.accept()
        with client, client.makefile("rw") as file:
            request: dict[str, object] = json.loads(file.readline())
            pid = os.fork()
            if pid == 0:
                server.close()
                return request
            file.write(f"{pid}\n")


def _become(request: dict[str, object]) -> str:
    """Be the process that was asked for; return the name of the module that it runs."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    log = os.open(str(request["log"]), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    for fd in (1, 2):
        os.dup2(log, fd)
    os.close(log)
    environment = request["env"]
    assert isinstance(environment, dict)
    os.environ.update(environment)
    random.seed()
    prefect.context.refresh_global_settings_context()
    words = request["words"]
    assert isinstance(words, list)
    sys.argv = words
    return str(words[0])


if __name__ == "__main__":
    runpy.run_module(_become(_serve(sys.argv[1])), run_name="__main__", alter_sys=True)
