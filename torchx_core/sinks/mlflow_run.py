"""MLflow: one run for each replica, in which each attempt goes on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_UN, flock
from getpass import getuser
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from typing import Final, Protocol, final

from torchx_core.sinks.addresses import check_reachable, is_page, without_password
from torchx_core.sinks.entries import Entry, Outcome, Point
from torchx_core.sinks.origin import command_line, find_git_state, is_child
from torchx_core.sinks.place import Place
from torchx_core.sinks.sink import warn

__all__ = ["MlflowRun"]

HANDLE_TAG: Final = "torchx.handle"
ROLE_TAG: Final = "torchx.role"
REPLICA_TAG: Final = "torchx.replica"
ATTEMPT_TAG: Final = "torchx.attempt"
_COMMAND = "command"
_MOST_NAME, _MOST_VALUE = 250, 6000
"""Characters of a metric's name, and of a parameter, that every version of the server takes."""


class _Info(Protocol):
    run_id: str
    experiment_id: str
    status: str


class _Data(Protocol):
    tags: Mapping[str, str]
    params: Mapping[str, str]


class _Run(Protocol):
    """An ``mlflow.entities.Run``."""

    info: _Info
    data: _Data


class _Experiment(Protocol):
    experiment_id: str


class _Client(Protocol):
    """A ``mlflow.MlflowClient``."""

    def get_experiment_by_name(self, name: str, /) -> _Experiment | None: ...

    def create_experiment(self, name: str, /) -> str: ...

    def search_runs(self, experiment_ids: list[str], filter_string: str, /) -> Sequence[_Run]: ...

    def create_run(self, experiment_id: str, /, *, tags: Mapping[str, str], run_name: str) -> _Run: ...

    def get_run(self, run_id: str, /) -> _Run: ...

    def update_run(self, run_id: str, status: str, /) -> None: ...

    def set_tag(self, run_id: str, key: str, value: object, /) -> None: ...

    def log_param(self, run_id: str, key: str, value: object, /) -> object: ...

    def log_text(self, run_id: str, text: str, artifact_file: str, /) -> None: ...

    def log_batch(self, run_id: str, metrics: Sequence[object], /, *, synchronous: bool) -> object: ...

    def set_terminated(self, run_id: str, status: str, /) -> None: ...


@final
class MlflowRun:
    """A run of a tracking server; the program may have others, which it is not told of."""

    def __init__(self, target: str, place: Place) -> None:
        """Import the client; the target is a tracking URI, by default the client's own."""
        self._mlflow: Final = import_module("mlflow")
        self._metric: Final = import_module("mlflow.entities").Metric
        self._uri: Final = target or str(self._mlflow.get_tracking_uri())
        self._place: Final = place
        self._client: _Client | None = None
        self._run_id = ""

    def open(self) -> str:
        """Find the replica's run, or make it, and note the attempt."""
        check_reachable(self._uri)
        self._client = self._client or self._make_client()
        experiment = self._experiment(self._client)
        with _alone(f"torchx-mlflow-{os.getuid()}-{self._place.key(self._uri)}.lock"):
            run = self._find(self._client, experiment) or self._create(self._client, experiment)
        self._run_id = run.info.run_id
        if _COMMAND not in run.data.params and not is_child():
            self._client.log_param(self._run_id, _COMMAND, command_line()[:_MOST_VALUE])
        if int(run.data.tags.get(ATTEMPT_TAG, "-1")) < self._place.attempt:
            self._client.set_tag(self._run_id, ATTEMPT_TAG, self._place.attempt)
            self._client.update_run(self._run_id, "RUNNING")
        return self._where(run.info)

    def write(self, entries: Sequence[Entry]) -> None:
        """Write the points as metrics, and a result as ``result.json``."""
        assert self._client is not None
        check_reachable(self._uri)
        metrics = [
            self._metric(_allowed(point.name), point.value, int(point.time * 1000), point.step)
            for point in entries
            if isinstance(point, Point)
        ]
        if metrics:
            self._client.log_batch(self._run_id, metrics, synchronous=True)
        for outcome in [entry for entry in entries if isinstance(entry, Outcome)][-1:]:
            self._write_result(self._client, outcome)

    def close(self, *, failed: bool) -> None:
        """End the run; where another process of the attempt has failed, it has failed."""
        assert self._client is not None
        run = self._client.get_run(self._run_id)
        of_attempt = run.data.tags.get(ATTEMPT_TAG) == str(self._place.attempt)
        has_failed = failed or (of_attempt and run.info.status == "FAILED")
        self._client.set_terminated(self._run_id, "FAILED" if has_failed else "FINISHED")

    def _write_result(self, client: _Client, outcome: Outcome) -> None:
        """Write the result; not again, for a store of files may lack a client or a right for good."""
        try:
            client.log_text(self._run_id, json.dumps(outcome.value, indent=2), "result.json")
        except Exception as err:  # noqa: BLE001  (MLflow's stores of files raise what their own clients raise)
            warn(f"metric sink mlflow: result.json is not written: {err}")

    def _make_client(self) -> _Client:
        client: _Client = self._mlflow.MlflowClient(tracking_uri=self._uri)
        return client

    def _experiment(self, client: _Client) -> str:
        """Return the experiment that MLflow's own variables name, or its default."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if not name:
            return os.environ.get("MLFLOW_EXPERIMENT_ID") or "0"
        found = client.get_experiment_by_name(name)
        if found is None:
            with suppress(self._mlflow.MlflowException):  # another replica has just made it
                return client.create_experiment(name)
            found = client.get_experiment_by_name(name)
        if found is None:
            raise LookupError(f"MLflow has no experiment {name!r}, and makes none")
        return found.experiment_id

    def _find(self, client: _Client, experiment: str) -> _Run | None:
        place = self._place
        quote = '"' if "'" in place.handle else "'"
        runs = client.search_runs([experiment], f"tags.`{HANDLE_TAG}` = {quote}{place.handle}{quote}")
        wanted = {HANDLE_TAG: place.handle, ROLE_TAG: place.role, REPLICA_TAG: place.replica}
        return next((run for run in runs if wanted.items() <= dict(run.data.tags).items()), None)

    def _create(self, client: _Client, experiment: str) -> _Run:
        place, git = self._place, find_git_state()
        tags = {
            HANDLE_TAG: place.handle,
            ROLE_TAG: place.role,
            REPLICA_TAG: place.replica,
            ATTEMPT_TAG: str(place.attempt),
            "mlflow.source.type": "JOB",
            "mlflow.source.name": place.handle,
        }
        with suppress(OSError, KeyError):  # a container's user may have no name
            tags["mlflow.user"] = getuser()
        if git is not None:
            tags |= {"mlflow.source.git.commit": git.commit, "torchx.git_dirty": str(git.is_dirty).lower()}
        return client.create_run(experiment, tags=tags, run_name=place.title)

    def _where(self, info: _Info) -> str:
        uri = without_password(self._uri)
        if is_page(uri):
            return f"{uri.rstrip('/')}/#/experiments/{info.experiment_id}/runs/{info.run_id}"
        return f"run {info.run_id} in {uri}"


def _allowed(name: str) -> str:
    """Return the name with `_` for what MLflow takes in no name of a metric."""
    allowed = re.sub(r"[^\w\-. :/]", "_", name)[:_MOST_NAME]
    return re.sub(r"^[/.]+|(?<=/)\.+(?=/|$)|/(?=/|$)", "_", allowed) or "_"


@contextmanager
def _alone(name: str) -> Generator[None]:
    """Let one process of this host at a time do what follows.

    Where the lock cannot be had, because another user's file is in its place, there is none.
    """
    path = Path(gettempdir(), name)
    try:
        fd = _lock(path)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        path.unlink()
        flock(fd, LOCK_UN)  # a data loader forked meanwhile has the file open for as long as it runs
        os.close(fd)


def _lock(path: Path) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        flock(fd, LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), path.stat()):
                return fd
        os.close(fd)  # whoever held it has removed it meanwhile
