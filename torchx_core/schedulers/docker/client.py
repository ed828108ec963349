"""What this scheduler asks of an engine: the few calls, typed, each with errors that say what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import TypeVar, cast
from urllib.parse import urlencode

from requests.exceptions import ReadTimeout, RequestException
from urllib3.exceptions import HTTPError

from torchx_core.errors import SchedulerError, TorchXError
from torchx_core.schedulers.docker.answers import (
    MEANINGLESS,
    Container,
    Json,
    Refused,
    Volume,
    container_of,
    labels_of,
    volume_of,
)
from torchx_core.schedulers.docker.endpoint import Endpoint
from torchx_core.schedulers.docker.exchange import Answer, Request
from torchx_core.schedulers.docker.frames import Frames, Record
from torchx_core.schedulers.docker.request_chain import Questions
from torchx_core.schedulers.docker.sdk import Api, Filters, unreachable

__all__ = ["NOTHING_CAME", "Engine", "all_of", "each_at_once"]

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 16
"""Requests that one call makes at a time."""
_HANDED_OVER_S = {"unix": 0.25}
_HANDED_OVER_FAR_S = 2.0
"""How long to wait for the answer to a request that the engine goes on with when we leave."""
_OK, _NOT_FOUND, _CONFLICT = 200, 404, 409
_ENDING_S, _PAUSE_S = 5.0, 0.1
"""How long a container's files may be out of reach, and how often to try."""
NOTHING_CAME = "nothing came"
"""What a refusal says of an answer that should have had bytes."""


class Engine:
    """One Docker engine; may be used by several threads at once.

    Names of things that are gone are no error where they are to be removed or stopped. Every method raises
    `Refused` when the engine says no and a retryable `SchedulerError` when it does not answer.
    """

    def __init__(self, api: Api, endpoint: Endpoint) -> None:
        """Take a client that is connected to the endpoint."""
        self.api = api
        self.endpoint = endpoint

    def close(self) -> None:
        """Close the connections."""
        self.api.close()

    def create_volume(self, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the labels of the volume of that name: ours, or those of the one that was there before.

        Source: ``POST /volumes/create`` answers with the volume that exists when the name is taken; 16 at
        once have one winner, and labels of 6 MB come back whole (seen on engine 20.10.24). After a restart of
        the engine it leaves the labels out, as long as no container mounts the volume; a look has them (seen
        there too; newer sources still say that the answer may be inconsistent).
        """
        stored: Mapping[str, str] | None = None
        while stored is None:  # somebody removed it between the answer and the look
            with self.asked(f"cannot write record {name}"):
                stored = labels_of(self.api.create_volume(name, labels=labels)) or self.volume_labels(name)
        return stored

    def volume_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of the volume, or None when there is none of that name."""
        try:
            with self.asked(f"cannot read record {name}"):
                return labels_of(self.api.inspect_volume(name))
        except Refused as err:
            if not err.not_found:
                raise
        return None

    def remove_volume(self, name: str) -> None:
        """Remove the volume."""
        with self.asked(f"cannot remove record {name}", gone_is_fine=True):
            self.api.remove_volume(name)

    def volumes(self, filters: Filters) -> list[Volume]:
        """Return the volumes that the filters let through."""
        with self.asked("cannot list records"):
            rows = cast("list[Json] | None", self.api.volumes(filters=filters)["Volumes"])
            return [volume_of(row) for row in rows or ()]

    def create_network(self, name: str, labels: Mapping[str, str]) -> None:
        """Create a bridge network, unless there is one of that name."""
        with self.asked(f"cannot create network {name}"):
            try:
                self.api.create_network(name, driver="bridge", labels=labels, check_duplicate=True)
            except Exception as err:
                if getattr(getattr(err, "response", None), "status_code", None) != _CONFLICT:
                    raise

    def network_ids(self, name: str) -> list[str]:
        """Return the ids of the networks of exactly that name."""
        with self.asked(f"cannot look for network {name}"):
            return [str(row["Id"]) for row in self.api.networks(names=[name]) if row["Name"] == name]

    def remove_network(self, network: str) -> None:
        """Remove the network of that name or id."""
        with self.asked(f"cannot remove network {network}", gone_is_fine=True):
            self.api.remove_network(network)

    def create_container(self, name: str, config: Json) -> None:
        """Create the container; a name that is taken is a conflict."""
        with self.asked(f"cannot create container {name}"):
            self.api.create_container_from_config(config, name)

    def start(self, container: str) -> None:
        """Start it; one that runs already is left alone."""
        with self.asked(f"cannot start container {container}"):
            self.api.start(container)

    def prepare(self, container: str, argv: Sequence[str], env: Mapping[str, str], *, terminal: bool) -> str:
        """Return the id of a command that can be started in the container."""
        with self.asked(f"cannot run a command in container {container}"):
            words, stdin = list(argv), True
            made = self.api.exec_create(container, words, stdin=stdin, tty=terminal, environment=env)
            return str(made["Id"])

    def start_apart(self, command: str) -> None:
        """Start a prepared command, and leave it to itself."""
        with self.asked("cannot run a command in a container"):
            self.api.exec_start(command, detach=True)

    def resize(self, command: str, columns: int, lines: int) -> None:
        """Give the command's terminal another size."""
        with self.asked("cannot resize a terminal", gone_is_fine=True):
            self.api.exec_resize(command, height=lines, width=columns)

    def exit_code_of(self, command: str) -> int | None:
        """Return how the command ended; None as long as it runs."""
        with self.asked("cannot look at a command in a container"):
            told = self.api.exec_inspect(command)
            return None if told["Running"] else cast("int | None", told["ExitCode"])

    def stop(self, container: str, grace_s: int) -> None:
        """Have the engine send SIGTERM now and SIGKILL after the grace period; do not wait for that.

        Source: the engine goes on when the client leaves (seen on 20.10.24). The first ones of 23.0 and 24.0
        kill at once instead (https://github.com/moby/moby/pull/45738, of June 2023).
        """
        leave_s = _HANDED_OVER_S.get(self.endpoint.parts.scheme, _HANDED_OVER_FAR_S)
        url = f"{self.api.base_url}/v{self.api.api_version}/containers/{container}/stop"
        failure = f"cannot stop container {container}"
        with self.asked(failure), suppress(ReadTimeout):
            response = self.api.post(url, params={"t": grace_s}, timeout=(self.api.timeout, leave_s))
            response.close()
            if response.status_code >= 400 and response.status_code != _NOT_FOUND:  # noqa: PLR2004  # HTTP
                raise Refused(f"{failure}: {response.text.strip()}", status=response.status_code)

    def remove_container(self, container: str) -> None:
        """Kill it if it runs, and remove it with its anonymous volumes."""
        with self.asked(f"cannot remove container {container}", gone_is_fine=True):
            self.api.remove_container(container, force=True, v=True)

    def containers(self, filters: Filters) -> list[Container]:
        """Return the containers that the filters let through, in whatever state."""
        with self.asked("cannot list containers"):
            return [container_of(row) for row in self.api.containers(all=True, filters=filters)]

    def last_records(self, container: str, lines: int) -> list[Record]:
        """Return the last lines of the container's log; none where it is gone, or nobody can read it.

        Raises:
            BadFrame: What came is no log.
        """
        wanted = {"stdout": 1, "stderr": 1, "timestamps": 1, "tail": lines}
        answer = self._send(Request(f"/containers/{container}/logs?{urlencode(wanted)}"))
        return Frames().take(answer.body) if answer.status == _OK else []

    def inspect_fully(self, container: str) -> Json:
        """Return all that the engine says of one container; secrets are in it."""
        with self.asked(f"cannot look at container {container}"):
            return self.api.inspect_container(container)

    def container_labels(self, container: str) -> Mapping[str, str] | None:
        """Return the labels of the container, or None when there is no such container."""
        with self.asked(f"cannot look at container {container}"):
            try:
                config = cast("Json", self.inspect_fully(container)["Config"])
            except Refused as err:
                if err.not_found:
                    return None
                raise
            return labels_of(config)

    def info(self) -> Json:
        """Return what the engine says of itself."""
        with self.asked("cannot ask the engine about itself"):
            return self.api.info()

    def put(self, container: str, path: str, tar: bytes) -> None:
        """Unpack the archive below the path, whatever state the container is in."""
        failure = f"cannot write to {path} of container {container}"
        self._patiently(failure, lambda: self.api.put_archive(container, path, tar))

    def ask(self, questions: Callable[[], Questions[T]]) -> T:
        """Wait for the answers to questions that follow from each other, and return what they come to."""
        return self._patiently("cannot ask the engine", lambda: self._answered(questions()))

    def _answered(self, questions: Questions[T]) -> T:
        try:
            requests = next(questions)
            while True:
                requests = questions.send(all_of(each_at_once(self._send, requests)))
        except StopIteration as end:
            return cast("T", end.value)

    def _send(self, request: Request) -> Answer:
        with self.asked("cannot ask the engine"):
            url = f"{self.api.base_url}/v{self.api.api_version}{request.target}"
            response = self.api.get(url, timeout=self.api.timeout)
            return Answer(response.status_code, response.content)

    def _patiently(self, failure: str, act: Callable[[], T]) -> T:
        """Try for a moment: Podman cannot get at the files of a container that is about to end.

        Source: an answer of no bytes, or an error that names ``/proc`` (seen on 4.3.1 and 5.4.2).
        """
        until = time.monotonic() + _ENDING_S
        while True:
            try:
                with self.asked(failure):
                    return act()
            except Refused as err:
                ends = err.in_trouble and any(sign in str(err) for sign in (NOTHING_CAME, "/proc"))
                if not ends or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE_S)  # noqa: TID251  # it ends within moments, and nothing tells

    def has_image(self, image: str) -> bool:
        """Return whether the engine has the image."""
        try:
            with self.asked(f"cannot look for image {image}"):
                self.api.inspect_image(image)
        except Refused as err:
            if err.not_found:
                return False
            raise
        return True

    def pull(self, image: str) -> None:
        """Pull the image."""
        failure = f"cannot pull image {image}"
        with self.asked(failure):
            for step in self.api.pull(image, stream=True, decode=True):
                if "error" in step:
                    raise Refused(f"{failure}: {step['error']}", status=_NOT_FOUND)

    @contextmanager
    def asked(self, failure: str, *, gone_is_fine: bool = False) -> Generator[None]:
        """Turn what the SDK raises into our errors.

        Args:
            failure: What could not be done, the start of the message.
            gone_is_fine: It is no error when what was asked about does not exist.
        """
        from docker.errors import (  # here: the SDK costs those nothing who need no engine
            APIError,
            StreamParseError,
        )

        try:
            yield
        except TorchXError:
            raise
        except APIError as err:
            status = int(err.status_code or 0)
            if not (gone_is_fine and status == _NOT_FOUND):
                raise Refused(f"{failure}: {err.explanation}", status=status) from err
        except (OSError, RequestException, HTTPError, HTTPException, StreamParseError) as err:
            # The last three: a stream of progress that ends in its middle, which the SDK reads past requests.
            raise unreachable(self.endpoint, err) from err
        except MEANINGLESS as err:
            problem = f"the engine's answer cannot be understood ({type(err).__name__}: {str(err)[:200]})"
            raise SchedulerError(f"{failure}: {problem}", retryable=True) from err


def each_at_once(act: Callable[[T], R], items: Iterable[T]) -> Sequence[R | SchedulerError]:
    """Return what the act gave for each item, in their order; what it raised stands for what it gave."""

    def attempt(item: T) -> R | SchedulerError:
        try:
            return act(item)
        except SchedulerError as err:
            return err

    todo = list(items)
    if len(todo) < 2:  # noqa: PLR2004  # nothing to do at once
        return [attempt(item) for item in todo]
    with ThreadPoolExecutor(min(len(todo), _AT_ONCE)) as pool:
        return list(pool.map(attempt, todo))


def all_of(answers: Iterable[T | SchedulerError]) -> list[T]:
    """Return what `each_at_once` gave, or raise the first error among it."""
    found: list[T] = []
    for answer in answers:
        if isinstance(answer, SchedulerError):
            raise answer
        found.append(answer)
    return found
