"""Hostile answers of Slurm, of Docker and of apps: only our own errors, an end, and bounded memory."""

from __future__ import annotations

import io
import json
import random
import resource
import select
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from test_fuzz import INPUTS, SEED, mutated

from torchx_core.errors import TorchXError
from torchx_core.schedulers.docker.answers import Json, container_of
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.endpoint import Endpoint, find_endpoint
from torchx_core.schedulers.docker.exchange import Body, Request
from torchx_core.schedulers.docker.frames import Frames
from torchx_core.schedulers.docker.polling import look
from torchx_core.schedulers.docker.request_chain import Questions, RequestChain
from torchx_core.schedulers.docker.sdk import sdk_client
from torchx_core.schedulers.docker.volume_state import last_result, read_volume_state
from torchx_core.schedulers.slurm.accounting import _parse as parse_accounting
from torchx_core.schedulers.slurm.job import parse_queue
from torchx_core.supervisor.reports import BadReport, parse_report

_MOST_MEMORY_KB = 1 << 20
"""How much the memory of the test's process may grow while one kind of input is read."""


def _wrapped(number: int) -> dict[str, object]:
    """Return a number as newer versions of Slurm write it."""
    return {"set": True, "infinite": False, "number": number}


def _slurm(release: str, *jobs: object) -> str:
    return json.dumps({"meta": {"Slurm": {"release": release}}, "errors": [], "jobs": jobs})


QUEUED = {"job_id": 7, "job_state": "RUNNING", "comment": "torchx:s/a:1", "name": "n", "nodes": "n1"}
NEWER = {**QUEUED, "job_state": ["RUNNING"], "restart_cnt": _wrapped(1), "het_job_id": _wrapped(0)}
REMEMBERED = {
    "job_id": 7,
    "state": {"current": "FAILED", "reason": "None"},
    "comment": {"job": "torchx:s/a:1"},
    "het": {"job_id": 0},
    "time": {"end": 1700000000},
    "nodes": "n1",
}
NEWER_REMEMBERED = {
    **REMEMBERED,
    "state": {"current": ["FAILED"], "reason": "None"},
    "het": {"job_id": _wrapped(0)},
    "time": {"end": _wrapped(1700000000)},
}
CONTAINER = {
    "Id": "c1",
    "Names": ["/c"],
    "State": {"Running": False, "ExitCode": 1, "StartedAt": "x", "FinishedAt": "y"},
    "Status": "Up",
    "Labels": {"a": "b"},
    "RestartCount": 1,
    "Config": {"Labels": None},
}
BODY = "5\r\nhello\r\n1a;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n"
JOURNAL = "start 0 1700000000.5\nend 0 1700000001.5 1\nstart 1 1700000002\n"
REPORT = '{"type": "metric", "name": "loss", "value": 0.5, "step": 3}'


def _queue(text: str) -> None:
    with suppress(ValueError):  # `ask` tells it as no answer
        parse_queue(text)


def _accounting(text: str) -> None:
    with suppress(ValueError):
        parse_accounting(text)


def _report(text: str) -> None:
    with suppress(BadReport):
        parse_report(text.encode("utf-8", "surrogatepass"))


def _body(text: str) -> None:
    """Take an answer's body in pieces; what is no body is a broken connection."""
    data = text.encode("utf-8", "surrogatepass")
    with suppress(OSError):
        body = Body({"transfer-encoding": "chunked"})
        for at in range(0, len(data), 7):
            body.take(data[at : at + 7])
    with suppress(OSError):
        Body({"content-length": text[:20]}).take(data)


def _frames(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    frame = b"\1\0\0\0" + (len(data) + 31).to_bytes(4, "big") + b"2024-01-01T00:00:00.000000000Z " + data
    for stream in (frame, data, frame[:20] + data):
        with suppress(OSError):
            Frames().take(stream)


def _notes(text: str) -> None:
    """Read what apps wrote into their own journals, which they can reach."""
    data = text.encode("utf-8", "surrogatepass")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("state/journal.0", "state/error.0.0", "state/over", "reports/0.0", "state/journal.x"):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    read_volume_state(archive.getvalue())
    last_result(archive.getvalue())


TARGETS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "squeue 22.05": (_queue, _slurm("22.05.8", QUEUED)),
    "squeue newer": (_queue, _slurm("24.11.5", NEWER)),
    "sacct 22.05": (_accounting, _slurm("22.05.8", REMEMBERED)),
    "sacct newer": (_accounting, _slurm("24.11.5", NEWER_REMEMBERED)),
    "report": (_report, REPORT),
    "body": (_body, BODY),
    "frames": (_frames, "hello\n"),
    "notes": (_notes, JOURNAL),
}
VALUES: tuple[object, ...] = ([], {}, None, "", -1, 1e999, 10**30, True, [[]], ["x", 1], {"a": {}}, "é\0")


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_only_our_own_errors(target: str) -> None:
    """Whatever the answer, what comes is what it means, or an error of ours, in bounded memory."""
    act, seed = TARGETS[target]
    rng = random.Random(f"{target} {SEED}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(INPUTS):
        text = _answer(seed, rng)
        try:
            with suppress(TorchXError):
                act(text)
        except Exception as err:
            raise AssertionError(f"input {number} of {target}, seed {SEED}: {text[:300]!r}") from err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < _MOST_MEMORY_KB


def _answer(seed: str, rng: random.Random) -> str:
    """Return the text changed as a text, or as JSON with another value somewhere."""
    if seed.startswith("{") and rng.random() < 0.6:
        return json.dumps(_changed(json.loads(seed), rng))
    return mutated(seed, rng)


def _changed(value: object, rng: random.Random) -> object:
    if rng.random() < 0.15:
        return rng.choice(VALUES)
    if isinstance(value, dict):
        return {name: _changed(inner, rng) for name, inner in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_changed(inner, rng) for inner in cast("list[object]", value)]
    return value


class _Handler(BaseHTTPRequestHandler):
    """Says which version it speaks, and else what `answer` is."""

    answer = b""

    def do_GET(self) -> None:
        """Answer any question."""
        body = b'{"ApiVersion": "1.41"}' if self.path.endswith("/version") else self.answer
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Answer any request."""
        self.do_GET()

    def address_string(self) -> str:
        """Return a name for the client, who has none."""
        return ""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
        """Say nothing."""


@contextmanager
def _server(path: Path) -> Iterator[type[_Handler]]:
    with ThreadingUnixStreamServer(str(path), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield _Handler
        finally:
            server.shutdown()
            thread.join()


def _inquire(endpoint: Endpoint) -> None:
    """Ask as a follower does, which takes an answer that makes no sense for an engine that is away."""

    def questions() -> Questions[object]:
        (answer,) = yield [Request("/containers/json")]
        return [container_of(row) for row in cast("list[Json]", answer.json)]

    request_chain = RequestChain(endpoint, "1.41", questions(), 0.0)
    while not request_chain.done and request_chain.failure is None:
        select.select([each for each in request_chain.exchanges if each.fileno() >= 0], [], [], 1)
        request_chain.advance(0.0)
    request_chain.close()


@pytest.mark.slow
def test_docker_may_answer_anything() -> None:
    """An engine, or what stands before it, answers with what no engine says: an error of ours."""
    rng = random.Random(f"docker {SEED}")
    seeds = [
        json.dumps(value) for value in (CONTAINER, [CONTAINER], {"Volumes": [{"Name": "v", "Labels": {}}]})
    ]
    with TemporaryDirectory(prefix="s-") as folder, _server(Path(folder, "s")) as handler:
        endpoint = find_endpoint(f"unix://{folder}/s", {})
        engine = Engine(sdk_client(endpoint), endpoint)
        asks: tuple[Callable[[], object], ...] = (
            lambda: engine.containers({}),
            lambda: engine.volumes({}),
            lambda: engine.ask(lambda: look("k")),
            lambda: engine.container_labels("c1"),
            lambda: engine.volume_labels("v"),
            lambda: engine.create_volume("v", {}),
            lambda: engine.network_ids("n"),
            lambda: _inquire(endpoint),
        )
        for number in range(INPUTS):
            text = _answer(rng.choice(seeds), rng)
            handler.answer = text.encode("utf-8", "surrogatepass")
            try:
                with suppress(TorchXError):
                    rng.choice(asks)()
            except Exception as err:
                raise AssertionError(f"input {number}, seed {SEED}: {text[:300]!r}") from err
        engine.close()
