"""The port on which the replicas of a role meet: free, the same for all of them, and nobody else's."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest
from local_apps import app_of, lines_of

from torchx_core import AppDef, AppState, Role, Runner
from torchx_core.specs import RetryPolicy
from torchx_core.supervisor.plan import Plan, ReplicaPlan
from torchx_core.supervisor.ports import MeetingPorts

Submit: TypeAlias = Callable[..., str]

SAY = "echo port=$TORCHX_RANK0_PORT"
STAY = f"{SAY}; exec sleep 600"
# Replica 1 fails once, when replica 0 has said its port.
ONCE = f"""{SAY}
if [ $0 = 1 ] && [ $TORCHX_ATTEMPT = 0 ]; then
    until [ -e $1/0 ]; do :; done
    exit 1
fi
: >$1/$0
until [ -e $1/1 ]; do :; done
"""
# A host with few ports: it prints whether one that somebody listens on is ever handed out, and what then.
FEW_PORTS = """
import socket
from torchx_core.supervisor.plan import Plan, ReplicaPlan
from torchx_core.supervisor.ports import MeetingPorts
from torchx_core.supervisor.spawn import CannotStart

with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as file:
    file.write("40000 40005")
servers = []
for port, family in ((40000, socket.AF_INET), (40001, socket.AF_INET6), (40003, socket.AF_INET)):
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", port))
    server.listen()
    servers.append(server)
holders = []
try:
    while True:
        holder = MeetingPorts(Plan([ReplicaPlan("r", k, ["true"], {}, "/", "/") for k in (0, 1)]))
        print(holder.shown_to(0, []))
        holders.append(holder)
except CannotStart as err:
    print(err)
"""


@pytest.fixture
def ports() -> Iterator[MeetingPorts]:
    """The ports of an app with one role of two replicas."""
    with closing(MeetingPorts(Plan([ReplicaPlan("r", k, ["true"], {}, "/", "/") for k in (0, 1)]))) as ports:
        yield ports


def ports_of(runner: Runner, handle: str, count: int) -> list[str]:
    """Return the ports in the first lines; as many as that."""
    said: list[str] = []
    for batch in runner.follow(handle):
        said += [line.text.removeprefix("port=") for line in batch.lines()]
        if len(said) >= count:
            break
    return said


def test_many_apps_at_once_have_a_port_each(runner: Runner, submit: Submit) -> None:
    """Both replicas of an app see the same one; it differs from app to app."""
    handles = [submit("sh", "-c", STAY, num_replicas=2) for _ in range(8)]
    seen = [ports_of(runner, handle, 2) for handle in handles]
    assert all(one == other and int(one) > 0 for one, other in seen)
    assert len({one for one, _ in seen}) == len(handles)


def test_each_role_has_its_own(runner: Runner) -> None:
    """Each has a replica 0 that others of the role meet; a replica without others has none."""
    roles = [
        Role(name, image="", entrypoint="sh", args=["-c", SAY], num_replicas=count)
        for name, count in (("a", 2), ("b", 3), ("alone", 1))
    ]
    handle = runner.run(AppDef("app", roles), "local_cwd")
    said: dict[str, set[str]] = {}
    for line in lines_of(runner.follow(handle)):
        said.setdefault(line.role, set()).add(line.text)
    assert [len(said[name]) for name in ("a", "b", "alone")] == [1, 1, 1]
    assert len(said["a"] | said["b"]) == 2
    assert said["alone"] == {"port="}


def test_that_of_an_app_around_this_one_is_not_inherited(
    runner: Runner, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replicas meet there; what the role itself says is taken."""
    monkeypatch.setenv("TORCHX_RANK0_PORT", "1")
    assert ports_of(runner, submit("sh", "-c", SAY), 1) == [""]
    assert "1" not in ports_of(runner, submit("sh", "-c", SAY, num_replicas=2), 2)
    env = {"TORCHX_RANK0_PORT": "7"}
    assert ports_of(runner, submit("sh", "-c", SAY, num_replicas=2, env=env), 2) == ["7", "7"]


@pytest.mark.parametrize("policy", list(RetryPolicy))
def test_after_a_retry_all_that_run_see_the_same(
    runner: Runner, submit: Submit, tmp_path: Path, policy: RetryPolicy
) -> None:
    """Whether one replica starts again, beside one that goes on, or both do."""
    role = {"num_replicas": 2, "max_retries": 1, "retry_policy": policy}
    handle = submit("sh", "-c", ONCE, "${replica_id}", str(tmp_path), **role)
    said: dict[int, str] = {line.replica: line.text for line in lines_of(runner.follow(handle))}
    status = runner.status(handle)
    assert status
    assert (status.state, status.num_restarts) == (AppState.SUCCEEDED, 1)
    assert said[0] == said[1] != "port="


def test_the_port_is_no_part_of_the_request(runner: Runner, submit: Submit) -> None:
    """Submitting again is submitting once."""
    app = {"app_id": "one", "num_replicas": 2}
    assert submit("sh", "-c", SAY, **app) == submit("sh", "-c", SAY, **app)
    info = runner.dryrun(app_of("true", num_replicas=2), "local_cwd")
    assert "TORCHX_RANK0_PORT" not in str(info)


def test_a_server_may_bind_it_and_nobody_gets_it_by_chance(ports: MeetingPorts) -> None:
    """What asks for any port never gets it; what names it without reuse is refused, as if it were used."""
    port = ports.shown_to(0, [])
    assert port
    with socket.socket() as blunt, pytest.raises(OSError, match="in use"):
        blunt.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)) as server:  # it allows reuse, as servers do
        assert server.getsockname()[1] == port
    assert ports.shown_to(1, [0]) == port


def test_a_port_that_somebody_took_is_left_alone_when_the_role_starts_again(ports: MeetingPorts) -> None:
    """A program that did not ask for a free one may serve it; while a replica runs it stays theirs."""
    port = ports.shown_to(0, [])
    assert port
    with socket.create_server(("127.0.0.1", port)):
        assert ports.shown_to(1, [0]) == port
        assert ports.shown_to(0, []) != port


def test_a_port_in_use_is_never_handed_out() -> None:
    """On a host with six, of which three are served: the others are, each once, and then there is none."""
    words = ["unshare", "--map-root-user", "--net", sys.executable, "-c", FEW_PORTS]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"no network of its own for the test: {done.stderr.strip()}")
    said = done.stdout.splitlines()
    assert sorted(said[:-1]) == ["40002", "40004", "40005"], done.stderr
    assert said[-1].startswith("no port for the replicas to meet on: ")
