"""Prints what a metric sink holds, as JSON, read with the project's own reader, in the clients' environment.

Usage: sink_reader.py tensorboard FOLDER | mlflow URI | wandb FOLDER. Each value is a list: name, value, step.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

BLOCK = 32768


def main() -> None:
    """Print the runs by their names."""
    kind, place = sys.argv[1:]
    readers = {"tensorboard": read_tensorboard, "mlflow": read_mlflow, "wandb": read_wandb}
    sys.stdout.write(json.dumps(readers[kind](place)))


def read_tensorboard(folder: str) -> dict[str, Any]:
    """Return each folder's scalars, by its path below the one given."""
    reader = import_module("tensorboard.backend.event_processing.event_accumulator")
    runs = {}
    for path in sorted({file.parent for file in Path(folder).rglob("events.out.tfevents.*")}):
        events = reader.EventAccumulator(str(path), size_guidance={"scalars": 0})
        events.Reload()
        tags = events.Tags()["scalars"]
        values = [(tag, each.value, each.step) for tag in tags for each in events.Scalars(tag)]
        runs[str(path.relative_to(folder))] = {"values": values, "files": len(list(path.glob("events.*")))}
    return runs


def read_mlflow(uri: str) -> dict[str, Any]:
    """Return every run by its name; a second run of one name is called ``NAME again``."""
    client = import_module("mlflow").MlflowClient(uri)
    runs: dict[str, Any] = {}
    for run in client.search_runs([each.experiment_id for each in client.search_experiments()]):
        values = [
            (name, each.value, each.step)
            for name in run.data.metrics
            for each in client.get_metric_history(run.info.run_id, name)
        ]
        name = run.info.run_name
        runs[f"{name} again" if name in runs else name] = {
            "values": values,
            "status": run.info.status,
            "tags": dict(run.data.tags),
            "params": dict(run.data.params),
            "id": run.info.run_id,
            "experiment": client.get_experiment(run.info.experiment_id).name,
            "artifacts": [each.path for each in client.list_artifacts(run.info.run_id)],
            "result": _artifact(client, run.info.run_id),
        }
    return runs


def _artifact(client: Any, run_id: str) -> object:
    if not client.list_artifacts(run_id):
        return None
    return json.loads(Path(client.download_artifacts(run_id, "result.json")).read_text())


def read_wandb(folder: str) -> dict[str, Any]:
    """Return the runs of the offline files below the folder, in the order of their attempts."""
    runs: dict[str, Any] = {}
    run: dict[str, Any] = {}
    for path in sorted(Path(folder).rglob("*.wandb")):
        for record in wandb_records(path.read_bytes()):
            if record.HasField("run"):
                run = runs.setdefault(record.run.run_id, {"values": [], "summary": {}, "exits": []})
                run |= {"name": record.run.display_name, "group": record.run.run_group}
            elif record.HasField("history"):
                row = {_key(item): json.loads(item.value_json) for item in record.history.item}
                own = [name for name in row if not name.startswith("_") and name != "step"]
                run["values"] += [(name, row[name], row["step"]) for name in own]
            elif record.HasField("summary"):
                run["summary"] |= {_key(item): json.loads(item.value_json) for item in record.summary.update}
            elif record.HasField("exit"):
                run["exits"].append(record.exit.exit_code)
    return runs


def _key(item: Any) -> str:
    return item.key or "/".join(item.nested_key)


def wandb_records(data: bytes) -> Iterator[Any]:
    """Yield the records of an offline file, up to one that was not written whole.

    The client has no reader any more. A file is a header of seven bytes and LevelDB's log: blocks of 32 KiB,
    in which each piece of a record has a checksum, a length, and a kind: whole, first, middle or last.
    """
    proto = import_module("wandb.proto.wandb_internal_pb2")
    at, pending = 7, b""
    while at + 7 <= len(data):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        piece = data[at + 7 : at + 7 + size]
        if kind == 0 or len(piece) < size:
            return
        at += 7 + size
        pending += piece
        if kind in (1, 4):
            record = proto.Record()
            record.ParseFromString(pending)
            pending = b""
            yield record


if __name__ == "__main__":
    main()
