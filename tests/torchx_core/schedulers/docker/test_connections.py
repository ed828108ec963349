from __future__ import annotations

import io
import json
import os
import select
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

import docker
import pytest
from certificates import make_certificates
from docker_engine import DockerEngine, free_number, why_no_engine
from docker_images import SHELL_IMAGE, import_images
from ssh_server import SshServer, why_no_ssh_server

from torchx_core import AppDef, AppState, Role, get_runner
from torchx_core.errors import SchedulerError
from torchx_core.schedulers.docker.endpoint import Endpoint, find_endpoint
from torchx_core.schedulers.docker.sdk import sdk_client
from torchx_core.schedulers.docker.stream import Stream, open_stream
from torchx_core.testing import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_no_engine() is not None, reason=str(why_no_engine())),
]

WAYS = ["unix", "tcp", "tls", "ssh"]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short path, for sockets; not in the temporary folder that each test must leave as it was."""
    path = Path(tempfile.mkdtemp(prefix="txc-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def near_engine(folder: Path) -> Iterator[DockerEngine]:
    """An engine with a second socket, and with TCP."""
    engine = DockerEngine(folder / "plain", free_number())
    try:
        engine.start(
            f"--host=unix://{folder}/second.sock", f"--host=tcp://{engine.address}:2375", "--tls=false"
        )
        client = docker.DockerClient(base_url=engine.url)
        import_images(client)
        client.close()
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def tls_engine(folder: Path) -> Iterator[DockerEngine]:
    """An engine that talks by TLS, only with whom its authority knows."""
    engine = DockerEngine(folder / "tls", free_number())
    certificates = folder / "certificates"
    certificates.mkdir()
    make_certificates(certificates, engine.address)
    try:
        engine.start(
            f"--host=tcp://{engine.address}:2376",
            "--tlsverify",
            f"--tlscacert={certificates}/ca.pem",
            f"--tlscert={certificates}/server-cert.pem",
            f"--tlskey={certificates}/server-key.pem",
        )
        yield engine
    finally:
        engine.stop()


@pytest.fixture
def ssh_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """A server that this test's ``ssh`` gets into."""
    if (reason := why_no_ssh_server("docker")) is not None:
        pytest.skip(reason)
    docker = Path(shutil.which("docker") or "docker").parent
    with SshServer(tmp_path, {"PATH": f"{docker}:/usr/bin:/bin"}) as server:
        monkeypatch.setenv("PATH", f"{server.clients}:{os.environ['PATH']}")
        yield server


@pytest.fixture
def endpoint(
    request: pytest.FixtureRequest, folder: Path, near_engine: DockerEngine, tls_engine: DockerEngine
) -> Endpoint:
    """An engine by the way that the test asks for."""
    match request.param:
        case "unix":
            return find_endpoint(f"{folder}/second.sock", {})
        case "tcp":
            return find_endpoint(f"tcp://{near_engine.address}", {})
        case "tls":
            environ = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": f"{folder}/certificates"}
            return find_endpoint(f"tcp://{tls_engine.address}", environ)
        case _:
            server: SshServer = request.getfixturevalue("ssh_server")
            return find_endpoint(f"{server.url}{near_engine.root}/engine.sock", {})


every_way = pytest.mark.parametrize("endpoint", WAYS, indirect=True)


@pytest.fixture(scope="module", autouse=True)
def engines(near_engine: DockerEngine, tls_engine: DockerEngine) -> None:
    """Both run before the first test, which would be blamed for them otherwise."""


class Sdk(Protocol):
    """What these tests call of ``docker.APIClient``, which has no types."""

    api_version: str

    def info(self) -> dict[str, object]: ...
    def version(self) -> dict[str, object]: ...
    def ping(self) -> bool: ...
    def import_image_from_data(self, data: bytes, *, repository: str) -> str: ...
    def create_volume(self, name: str) -> dict[str, object]: ...
    def remove_volume(self, name: str, *, force: bool) -> None: ...
    def close(self) -> None: ...


def sdk(endpoint: Endpoint, connections: int = 10) -> Sdk:
    """Return the SDK's client."""
    return cast("Sdk", sdk_client(endpoint, connections=connections))


def exchange(stream: Stream, request: bytes) -> bytes:
    """Return the body of the answer to an HTTP/1.0 request."""
    answer = b""
    while True:
        request = request[stream.send(request) :] if request else b""
        data = stream.receive(1 << 16)
        if data == b"":
            return answer.partition(b"\r\n\r\n")[2]
        if data is None:
            ready = select.select([stream], [stream] if stream.wants_write else [], [], 60)
            assert any(ready), "nothing happens"
        answer += data or b""


def get(path: str) -> bytes:
    """Return the request for a path."""
    return f"GET {path} HTTP/1.0\r\nHost: engine\r\n\r\n".encode()


@every_way
def test_requests_and_streams_reach_the_engine(endpoint: Endpoint) -> None:
    """Whatever the way, the SDK's requests and our streams come to the same engine."""
    client = sdk(endpoint)
    stream = open_stream(endpoint)
    try:
        told = json.loads(exchange(stream, get("/info")))
        assert client.info()["ID"] == told["ID"]
    finally:
        stream.close()
        client.close()


@every_way
def test_a_large_answer_arrives_whole(endpoint: Endpoint) -> None:
    """Megabytes come through a stream unchanged, also those that TLS holds back from select."""
    content = os.urandom(3 << 20)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        (file := tarfile.TarInfo("content")).size = len(content)
        tar.addfile(file, io.BytesIO(content))
    client = sdk(endpoint)
    stream = open_stream(endpoint)
    try:
        client.import_image_from_data(buffer.getvalue(), repository="large")
        assert content in exchange(stream, get("/images/large/get"))
    finally:
        stream.close()
        client.close()


@every_way
def test_a_stream_stays_open_until_it_is_closed(endpoint: Endpoint) -> None:
    """What happens on the engine is heard at once, on a stream that ends only when we end it."""
    client = sdk(endpoint)
    stream = open_stream(endpoint)
    try:
        request, heard = get("/events"), b""
        while b"heard" not in heard:
            if request:
                request = request[stream.send(request) :]
            elif b"\r\n\r\n" in heard:
                client.create_volume("heard")
            data = stream.receive(1 << 16)
            assert data != b""
            if data is None:
                select.select([stream], [stream] if stream.wants_write else [], [], 1)
            heard += data or b""
    finally:
        stream.close()
        client.remove_volume("heard", force=True)
        client.close()


@pytest.mark.parametrize("endpoint", ["ssh"], indirect=True)
def test_many_requests_at_once_over_ssh(endpoint: Endpoint) -> None:
    """More requests at once than a server lets connect at once are all answered."""
    client = sdk(endpoint, connections=50)
    try:
        with ThreadPoolExecutor(30) as pool:
            answers = [pool.submit(client.ping) for _ in range(60)]
            assert all(answer.result() for answer in answers)
    finally:
        client.close()


@pytest.mark.parametrize("endpoint", ["ssh"], indirect=True)
def test_a_server_that_lets_nobody_in(endpoint: Endpoint, ssh_server: SshServer) -> None:
    """What ssh says about a failure is in the error, of requests and of streams."""
    ssh_server.forget_the_key()
    with pytest.raises(SchedulerError, match=r"cannot reach the Docker engine at ssh://.*Permission denied"):
        sdk_client(endpoint)
    stream = open_stream(endpoint)
    try:
        with pytest.raises(ConnectionError, match="Permission denied"):
            exchange(stream, get("/_ping"))
    finally:
        stream.close()


@pytest.mark.parametrize("endpoint", ["tls"], indirect=True)
def test_an_engine_of_another_authority_is_not_trusted(endpoint: Endpoint) -> None:
    """Without its authority's certificate an engine is refused, and asking again is no use."""
    assert endpoint.tls is not None
    stranger = replace(endpoint, tls=replace(endpoint.tls, ca=None))
    with pytest.raises(SchedulerError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        sdk_client(stranger)
    assert not caught.value.retryable
    stream = open_stream(stranger)
    try:
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            exchange(stream, get("/_ping"))
    finally:
        stream.close()


@pytest.mark.parametrize("endpoint", ["tls"], indirect=True)
def test_without_proof_any_engine_will_do(endpoint: Endpoint) -> None:
    """With DOCKER_TLS alone the connection is encrypted, and the engine need not be trusted."""
    assert endpoint.tls is not None
    client = sdk(replace(endpoint, tls=replace(endpoint.tls, ca=None, verify=False)))
    assert client.ping()
    client.close()


@pytest.mark.parametrize("address", ["unix:///nowhere.sock", "tcp://127.0.0.1:9", "ssh://127.0.0.1:9"])
def test_nobody_there(address: str) -> None:
    """An engine that is not there is named, with who named it; asking again may help."""
    with pytest.raises(
        SchedulerError, match=rf"cannot reach .* {address} \(docker_host\): .*running\?"
    ) as caught:
        sdk_client(find_endpoint(address, {}))
    assert caught.value.retryable


@pytest.mark.parametrize("tls", [False, True])
def test_a_silent_host_holds_nobody_up(tls: bool) -> None:
    """While a host says nothing, opening, sending and receiving return at once."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {"DOCKER_TLS": "1"} if tls else {}
        stream = open_stream(find_endpoint(f"tcp://127.0.0.1:{silent.getsockname()[1]}", environ))
        try:
            assert stream.wants_write
            for _ in range(3):
                assert stream.receive(1) is None
            assert stream.send(b"GET") == (0 if tls else 3)
        finally:
            stream.close()


def test_an_ssh_that_gets_nowhere_is_ended() -> None:
    """Closing a stream whose ssh still waits for an answer returns at once, and ends it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        stream = open_stream(find_endpoint(f"ssh://127.0.0.1:{silent.getsockname()[1]}", {}), timeout_s=240)
        assert stream.receive(1) is None
        stream.close()  # waits for its end: for ever, if nobody ended it


def test_a_host_that_does_not_even_answer() -> None:
    """While a connection is not made, sending and receiving return at once, and tell what to wait for."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(2)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        stream = open_stream(find_endpoint(f"tcp://127.0.0.1:{full.getsockname()[1]}", {}))
        try:
            assert (stream.send(b"GET"), stream.receive(1), stream.wants_write) == (0, None, True)
        finally:
            stream.close()
            for filler in fillers:
                filler.close()


@pytest.mark.parametrize("endpoint", ["unix", "tcp", "ssh"], indirect=True)
def test_a_handle_works_by_every_way(near_engine: DockerEngine, endpoint: Endpoint) -> None:
    """An app run by one way is seen, owned, cancelled and deleted by another: its state is the engine's."""
    role = Role(name="main", image=SHELL_IMAGE, entrypoint="sleep", args=["100"], num_replicas=2)
    app = AppDef(name="sleeper", roles=[role])
    with (
        get_runner("ways", docker_host=near_engine.url) as here,
        get_runner("ways", docker_host=endpoint.url) as there,
    ):
        handle = here.run(app, "local_docker", app_id="one")
        assert there.run(app, "local_docker", app_id="one") == handle
        assert there.describe(handle) == here.describe(handle)
        assert [row.app_handle for row in there.list("local_docker")] == [handle]
        assert there.take_over(handle, "there")
        assert here.owner(handle) == "there"
        there.cancel(handle, grace_s=0, reason="seen from elsewhere")
        wait_until(lambda: (status := here.status(handle)) is not None and status.is_terminal(), 240)
        status = there.status(handle)
        assert status is not None
        assert status.state is AppState.CANCELLED
        assert "seen from elsewhere" in status.msg
        there.delete(handle)
        assert here.status(handle) is None


def test_the_sdk_is_the_real_one(near_engine: DockerEngine) -> None:
    """What `sdk_client` returns is the SDK's own client, speaking the engine's version."""
    client = sdk(find_endpoint(near_engine.url, {}))
    assert isinstance(client, docker.APIClient)
    assert client.api_version == client.version()["ApiVersion"]
    client.close()
