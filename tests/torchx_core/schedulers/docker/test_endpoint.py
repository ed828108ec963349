from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path

import pytest

from torchx_core.errors import BackendAbsentError, InvalidInputError, SchedulerError
from torchx_core.schedulers.docker.endpoint import DEFAULT_HOST, Endpoint, TlsFiles, find_endpoint
from torchx_core.schedulers.docker.sdk import unreachable


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder without any Docker configuration."""
    return tmp_path


def find(given: str | None, home: Path, **environ: str) -> Endpoint:
    """Find the engine with that environment."""
    return find_endpoint(given, {"HOME": str(home), **environ})


def add_context(home: Path, name: str, endpoint: dict[str, object], *pems: str) -> None:
    """Store a context as ``docker context create`` does."""
    hashed = hashlib.sha256(name.encode()).hexdigest()
    meta = home / ".docker" / "contexts" / "meta" / hashed
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": endpoint}}))
    if pems:
        tls = home / ".docker" / "contexts" / "tls" / hashed / "docker"
        tls.mkdir(parents=True)
        for pem in pems:
            (tls / pem).touch()


def test_nothing_said_is_the_default_socket(home: Path) -> None:
    """Without any configuration the engine is this machine's."""
    assert find(None, home) == Endpoint(url=DEFAULT_HOST, origin="the default")


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("unix:///run/d.sock", "unix:///run/d.sock"),
        ("/run/d.sock", "unix:///run/d.sock"),
        ("tcp://box:1234", "tcp://box:1234"),
        ("tcp://box", "tcp://box:2375"),
        ("box:1234", "tcp://box:1234"),
        ("http://box", "tcp://box:2375"),
        ("tcp://[::1]:1234", "tcp://[::1]:1234"),
        ("ssh://me@box:22", "ssh://me@box:22"),
        ("ssh://box/run/d.sock", "ssh://box/run/d.sock"),
    ],
)
def test_addresses(address: str, url: str, home: Path) -> None:
    """What the docker command line takes for an address is one."""
    assert find(address, home) == Endpoint(url=url, origin="docker_host")


@pytest.mark.parametrize(
    "address",
    ["npipe://./pipe", "unix://", "unix://host/path", "tcp://", "tcp://box:port", "ssh://", "fd://x"],
)
def test_what_is_no_address(address: str, home: Path) -> None:
    """Anything else is refused, quoted, with whoever said it."""
    with pytest.raises(InvalidInputError, match=r"not the address of a Docker engine: '.*' \(DOCKER_HOST\)"):
        find(None, home, DOCKER_HOST=address)


@pytest.mark.parametrize("address", ["ssh://me:hunter2@box", "tcp://me:hunter2@box"])
def test_a_password_is_refused_and_not_repeated(address: str, home: Path) -> None:
    """A password in an address shows up neither in the message nor anywhere later."""
    with pytest.raises(InvalidInputError, match="not the address") as caught:
        find(address, home)
    assert "hunter2" not in str(caught.value)


def test_who_wins(home: Path) -> None:
    """The parameter wins over DOCKER_HOST, that over DOCKER_CONTEXT, that over the current context."""
    add_context(home, "far", {"Host": "tcp://far:1"})
    add_context(home, "near", {"Host": "unix:///near.sock"})
    (home / ".docker" / "config.json").write_text('{"currentContext": "far"}')
    assert find(None, home).url == "tcp://far:1"
    assert find(None, home, DOCKER_CONTEXT="near") == Endpoint(
        url="unix:///near.sock", origin="context 'near'"
    )
    assert find(None, home, DOCKER_CONTEXT="default").url == DEFAULT_HOST
    assert find(None, home, DOCKER_CONTEXT="near", DOCKER_HOST="/host.sock").url == "unix:///host.sock"
    assert find("/mine.sock", home, DOCKER_HOST="/host.sock").url == "unix:///mine.sock"


def test_the_configuration_may_lie_elsewhere(home: Path) -> None:
    """DOCKER_CONFIG moves the configuration, contexts and all."""
    add_context(home, "far", {"Host": "tcp://far:1"})
    found = find(None, home / "elsewhere", DOCKER_CONFIG=str(home / ".docker"), DOCKER_CONTEXT="far")
    assert found.url == "tcp://far:1"


def test_an_unknown_context_names_the_known(home: Path) -> None:
    """A context that does not exist is refused, with the closest that does."""
    add_context(home, "staging", {"Host": "tcp://far:1"})
    with pytest.raises(
        InvalidInputError, match=r"'stagin'; known: default, staging; did you mean 'staging'\?"
    ):
        find(None, home, DOCKER_CONTEXT="stagin")


def test_a_broken_configuration_is_named(home: Path) -> None:
    """A configuration that is no JSON is an error that names the file."""
    (home / ".docker").mkdir()
    (home / ".docker" / "config.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"cannot read the Docker configuration .*config\.json"):
        find(None, home)


def test_tls_of_the_environment(home: Path) -> None:
    """DOCKER_TLS_VERIFY turns TLS on, with the files of DOCKER_CERT_PATH that are there, and its port."""
    (home / "ca.pem").touch()
    found = find("tcp://box", home, DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=str(home))
    tls = TlsFiles(ca=str(home / "ca.pem"), cert=None, key=None, verify=True)
    assert (found.url, found.tls) == ("tcp://box:2376", tls)


def test_tls_without_proof(home: Path) -> None:
    """DOCKER_TLS alone encrypts and asks for no proof; an empty DOCKER_TLS_VERIFY means nothing."""
    assert find("tcp://box", home, DOCKER_TLS="1").tls == TlsFiles(ca=None, cert=None, key=None, verify=False)
    assert find("tcp://box", home, DOCKER_TLS_VERIFY="", DOCKER_CERT_PATH=str(home)).tls is None


def test_https_is_tls_with_proof(home: Path) -> None:
    """An https address is TLS, trusting the system's authorities."""
    found = find("https://box", home)
    assert found == Endpoint(
        url="tcp://box:2376", tls=TlsFiles(ca=None, cert=None, key=None, verify=True), origin="docker_host"
    )


def test_tls_of_a_context(home: Path) -> None:
    """A context has TLS files of its own, and the environment's are not for it."""
    add_context(home, "far", {"Host": "tcp://far:1"}, "ca.pem", "cert.pem", "key.pem")
    add_context(home, "lax", {"Host": "tcp://lax:1", "SkipTLSVerify": True})
    add_context(home, "plain", {"Host": "tcp://plain:1"})
    far, lax, plain = (
        find(None, home, DOCKER_CONTEXT=n, DOCKER_TLS_VERIFY="1").tls for n in ("far", "lax", "plain")
    )
    assert far is not None
    assert far.verify
    assert [Path(p or "").name for p in (far.ca, far.cert, far.key)] == ["ca.pem", "cert.pem", "key.pem"]
    assert lax == TlsFiles(ca=None, cert=None, key=None, verify=False)
    assert plain is None


@pytest.mark.parametrize("cause", [FileNotFoundError, PermissionError])
def test_an_engine_that_nobody_named_may_be_absent(home: Path, cause: type[OSError]) -> None:
    """No socket, or one that this user may not use: then nobody runs apps there, and no list speaks of it."""
    assert isinstance(unreachable(find(None, home), cause()), BackendAbsentError)
    named = find(None, home, DOCKER_HOST=DEFAULT_HOST)
    assert not isinstance(unreachable(named, cause()), BackendAbsentError)


def test_an_engine_is_judged_by_its_own_error(home: Path) -> None:
    """A file that the user has not found does not make an engine absent that refuses a connection."""

    def found() -> SchedulerError:
        try:
            socket.create_connection(("127.0.0.1", 0)).close()
        except OSError as err:
            return unreachable(find(None, home), err)
        pytest.fail("something listens there")

    try:
        (home / "none").stat()
    except FileNotFoundError:
        assert not isinstance(found(), BackendAbsentError)
        assert "none" not in str(found())


def test_an_engine_that_does_not_answer_is_not_absent(home: Path) -> None:
    """Its socket is there: it may have apps."""
    assert not isinstance(unreachable(find(None, home), ConnectionRefusedError()), BackendAbsentError)
