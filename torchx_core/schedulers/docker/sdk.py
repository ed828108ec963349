# ruff: noqa: D102  # the SDK documents its methods
"""The Docker SDK's client, over connections of our own.

The SDK's own way over ssh needs another package even to use the ``ssh`` program, and it verifies TLS in a way
of its own; with one way to connect, what works for requests works for streams.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from http.client import RemoteDisconnected
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException, SSLError
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from torchx_core.errors import BackendAbsentError, SchedulerError
from torchx_core.schedulers.causes import causes
from torchx_core.schedulers.docker.answers import Json
from torchx_core.schedulers.docker.dial import SshTunnel, Tunnels, connect_tcp, connect_unix
from torchx_core.schedulers.docker.endpoint import BY_DEFAULT, Endpoint

# Said now, not at the first request: others bring what is imported above. A folder is no such package.
if (_found := find_spec("docker")) is None or _found.origin is None:
    raise ModuleNotFoundError("No module named 'docker'", name="docker")

if TYPE_CHECKING:
    from urllib3.response import HTTPResponse

__all__ = ["Api", "Filters", "sdk_client", "unreachable"]

Filters: TypeAlias = Mapping[str, list[str]]

_CONNECT_S = 10.0
_MOST_SSH = 6
"""Connections at a time: a server lets ten (``MaxStartups``) knock at once, and we may not be alone."""


class Api(Protocol):
    """The part of ``docker.APIClient`` that is used; it documents its methods."""

    base_url: str
    api_version: str
    timeout: float

    def create_volume(self, name: str, *, labels: Mapping[str, str]) -> Json: ...
    def inspect_volume(self, name: str) -> Json: ...
    def remove_volume(self, name: str) -> None: ...
    def volumes(self, *, filters: Filters) -> Json: ...
    def create_network(
        self, name: str, *, driver: str, labels: Mapping[str, str], check_duplicate: bool
    ) -> Json: ...
    def networks(self, *, names: list[str]) -> list[Json]: ...
    def remove_network(self, net_id: str) -> None: ...
    def create_container_from_config(self, config: Json, name: str) -> Json: ...
    def start(self, container: str) -> None: ...
    def exec_create(
        self, container: str, cmd: list[str], *, stdin: bool, tty: bool, environment: Mapping[str, str]
    ) -> Json: ...
    def exec_start(self, exec_id: str, *, detach: bool) -> object: ...
    def exec_resize(self, exec_id: str, *, height: int, width: int) -> None: ...
    def exec_inspect(self, exec_id: str) -> Json: ...
    def remove_container(self, container: str, *, force: bool, v: bool) -> None: ...
    def containers(self, *, all: bool, filters: Filters) -> list[Json]: ...  # noqa: A002  # the SDK's
    def inspect_container(self, container: str) -> Json: ...
    def put_archive(self, container: str, path: str, data: bytes) -> bool: ...
    def inspect_image(self, image: str) -> Json: ...
    def pull(self, repository: str, *, stream: bool, decode: bool) -> Iterable[Json]: ...
    def get(self, url: str, *, timeout: float) -> Response: ...
    def post(self, url: str, *, params: Mapping[str, int], timeout: tuple[float, float]) -> Response: ...
    def push(self, repository: str, *, stream: bool, decode: bool) -> Iterator[Json]: ...
    def prune_images(self, filters: Json) -> Json: ...
    def remove_image(self, image: str) -> None: ...
    def build(  # noqa: PLR0913  # the SDK's
        self,
        *,
        fileobj: Iterator[bytes],
        custom_context: bool,
        dockerfile: str,
        tag: str,
        buildargs: Mapping[str, str],
        labels: Mapping[str, str],
        rm: bool,
        forcerm: bool,
        decode: bool,
    ) -> Iterator[Json]: ...
    def info(self) -> Json: ...
    def version(self, *, api_version: bool) -> Json: ...
    def mount(self, prefix: str, adapter: HTTPAdapter) -> None: ...
    def close(self) -> None: ...


class Response(Protocol):
    """The part of an HTTP answer that is used."""

    status_code: int
    content: bytes
    text: str

    def close(self) -> None: ...


def sdk_client(endpoint: Endpoint, timeout_s: float = 60.0, connections: int = 10) -> Api:
    """Return a ``docker.APIClient`` that speaks the engine's version; makes one request.

    Args:
        endpoint: The engine.
        timeout_s: How long it may be silent before a request fails.
        connections: How many to keep for the next request. More can be used at once, except over ssh.

    Raises:
        SchedulerError: The engine does not answer.
    """
    probe = _client(endpoint, timeout_s, 1, "1.24")
    try:
        version = str(probe.version(api_version=False)["ApiVersion"])
    except (OSError, RequestException) as err:
        raise unreachable(endpoint, err) from err
    finally:
        probe.close()
    return _client(endpoint, timeout_s, connections, version)


def unreachable(endpoint: Endpoint, err: Exception) -> SchedulerError:
    """Return the error for an engine that does not answer, told by the innermost cause."""
    *_, cause = causes(err)
    hint, retryable = "is it running?", True
    if isinstance(cause, PermissionError):
        hint, retryable = "this user may not use its socket", False
    elif isinstance(err, SSLError):
        hint, retryable = "are these the TLS files for it?", False
    nobodys = endpoint.origin == BY_DEFAULT and isinstance(cause, FileNotFoundError | PermissionError)
    kind = BackendAbsentError if nobodys else SchedulerError
    return kind(f"cannot reach the Docker engine at {endpoint}: {cause}; {hint}", retryable=retryable)


def _client(endpoint: Endpoint, timeout_s: float, connections: int, version: str) -> Api:
    docker = import_module("docker")
    # A socket that is never opened: the adapter below takes its place.
    client = cast("Api", docker.APIClient("unix:///engine", version=version, timeout=timeout_s))
    client.mount("http+docker://", _Adapter(endpoint, connections))
    return client


class _Adapter(HTTPAdapter):
    """Sends every request to the one engine."""

    def __init__(self, endpoint: Endpoint, connections: int) -> None:
        super().__init__()
        over_ssh = endpoint.parts.scheme == "ssh"
        self._tunnels = Tunnels(endpoint)
        self._pool = _Pool(
            "localhost",
            maxsize=min(connections, _MOST_SSH) if over_ssh else connections,
            block=over_ssh,
            endpoint=endpoint,
            tunnels=self._tunnels,
        )

    def get_connection_with_tls_context(self, *_request: object, **_tls: object) -> HTTPConnectionPool:
        return self._pool

    def request_url(self, request: PreparedRequest, proxies: object) -> str:  # noqa: ARG002  # an engine has none
        return request.path_url

    def close(self) -> None:
        self._pool.close()
        self._tunnels.close()


class _Connection(HTTPConnection):
    """One connection to the engine."""

    def __init__(self, host: str, *, endpoint: Endpoint, tunnels: Tunnels, **options: object) -> None:
        super().__init__(host, timeout=cast("float | None", options.get("timeout")))
        self._endpoint = endpoint
        self._tunnels = tunnels
        self._carrier: SshTunnel | None = None

    def connect(self) -> None:
        self.sock = self._dial()
        self.sock.settimeout(self.timeout)

    def _dial(self) -> socket.socket:
        parts = self._endpoint.parts
        match parts.scheme:
            case "unix":
                return connect_unix(parts.path, _CONNECT_S)
            case "ssh":
                self._carrier = self._tunnels.open(_CONNECT_S)
                return self._carrier.socket
            case _:
                return connect_tcp(self._endpoint, _CONNECT_S)

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3 itself
        try:
            return super().getresponse()
        except (RemoteDisconnected, ConnectionError) as err:
            if self._carrier is None:
                raise
            raise ConnectionError(self._carrier.failure() or str(err)) from None


class _Pool(HTTPConnectionPool):
    """The connections kept for the next request."""

    # urllib3's protocol for it asks for constants that can be changed.
    ConnectionCls = _Connection  # pyright: ignore[reportAssignmentType]
