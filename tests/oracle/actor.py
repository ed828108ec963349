"""A process that submits, follows or storms, made to be killed and stopped.

``actor.py submit REQUEST`` says ``ready`` on stdout, submits, and says what came of it.
``actor.py storm REQUEST FOLDER NUMBER TURNS`` does what `storm` says, and says what it raised.
``actor.py follow REQUEST HANDLE FILE`` appends each batch with its cursor to FILE in one write and goes on
from the last whole line there: killed at any moment, the file is one chain of cursors.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from storm import storm

from torchx_core import AppDef, AppStatus, Runner, get_runner
from torchx_core.errors import TorchXError
from torchx_core.schedulers import AppEvent, Batch, LogLines
from torchx_core.testing import wait_until

__all__ = ["documents", "error_document", "follow", "read_chain"]

Document = dict[str, Any]
_TYPES = {"ReplicaChanged": "replica", "StateChanged": "state", "LogsLost": "lost"}


def documents(batch: Batch) -> list[Document]:
    """Return the batch's events as plain values, one per log line."""
    return [document for event in batch.events for document in _documents(event)]


def _documents(event: AppEvent) -> list[Document]:
    if isinstance(event, LogLines):
        return [{"type": "log", **line._asdict()} for line in event.each()]
    name = type(event).__name__
    values = {f.name: getattr(event, f.name) for f in fields(event)}
    if isinstance(values.get("status"), AppStatus):
        values["status"] = values["status"].to_json()
    if "state" in values:
        values["state"] = values["state"].name
    return [{"type": _TYPES.get(name, name.lower()), **values}]


def error_document(err: BaseException) -> Document:
    """Return an error as plain values, and whether it is one of ours."""
    return {"error": type(err).__name__, "ours": isinstance(err, TorchXError), "text": str(err)[:500]}


def read_chain(path: Path) -> list[Document]:
    """Return the whole lines of a follower's file; what a kill tore is not one."""
    text = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]


def submit(request: Document) -> None:
    """Submit what the request says, and print the handle or the error."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        _be_poor(request)
        with get_runner(request["session"]) as runner:
            app = AppDef.from_dict(request["app"])
            handle = runner.run(app, request["scheduler"], request["cfg"], app_id=request["app_id"])
            answer: Document = {"handle": handle}
    except Exception as err:  # noqa: BLE001  # the judge decides which errors may be
        answer = error_document(err)
    sys.stdout.write(json.dumps(answer) + "\n")


def _be_poor(request: Document) -> None:
    """Take from this process, and from what it starts, what the request says."""
    if most := request.get("descriptors"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if group := request.get("group"):
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    if (more := request.get("memory")) is not None:
        most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def follow(request: Document, handle: str, path: Path, runner: Runner) -> None:
    """Go on with the chain in the file until the app is over."""
    chain = read_chain(path)
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    whole = os.pread(file, os.fstat(file).st_size, 0)
    os.ftruncate(file, whole.rfind(b"\n") + 1)
    os.lseek(file, 0, os.SEEK_END)
    cursor = next((batch["cursor"] for batch in reversed(chain) if batch["cursor"]), None)
    options: Document = request.get("follow", {})
    try:
        for batch in runner.follow(handle, cursor, batch_bytes=options.get("batch_bytes")):
            _append(file, {"events": documents(batch), "cursor": batch.cursor})
            _rest(options.get("pause_s", 0))
        last: Document = {"cursor": None, "events": [], "end": True}
    except Exception as err:  # noqa: BLE001  # likewise
        last = {"cursor": None, "events": [], **error_document(err)}
    _append(file, last)
    os.close(file)


def _append(file: int, document: Document) -> None:
    data = memoryview(json.dumps(document).encode() + b"\n")
    while data:
        data = data[os.write(file, data) :]


def _rest(seconds: float) -> None:
    """Be a slow consumer."""
    if seconds:
        try:
            wait_until(lambda: False, seconds)
        except AssertionError:
            return


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # who waits for a hung one asks it where it is
    asked = json.loads(Path(sys.argv[2]).read_text())
    if sys.argv[1] == "submit":
        submit(asked)
    elif sys.argv[1] == "storm":
        with get_runner(asked["session"]) as runner:
            told = storm(runner, asked, Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        sys.stdout.write(json.dumps([(name, error_document(err)) for name, err in told]))
    else:
        with get_runner(asked["session"]) as runner:
            follow(asked, sys.argv[3], Path(sys.argv[4]), runner)
