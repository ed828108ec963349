# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""The script around each program, in real containers, with the shells that images have."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias, cast

import docker
import pytest
from docker.types import Mount
from docker_images import SHELL_IMAGE

from torchx_core.schedulers.docker.shim import DATA, STATE, ShimSettings, command
from torchx_core.schedulers.docker.volume_state import VolumeState, archive, read_volume_state
from torchx_core.testing import wait_until

DASH_IMAGE = "torchx-test-dash:latest"
_KEY = "0123456789ab"

Play: TypeAlias = Callable[..., "Replica"]


class Replica:
    """One container with the script, on a volume of its own."""

    def __init__(
        self,
        client: docker.DockerClient,
        image: str,
        argv: list[str],
        *,
        user: str = "",
        env: tuple[str, ...] = (),
        has_init: bool = True,
        **settings: object,
    ) -> None:
        self._client = client
        self.volume = client.volumes.create(f"shim-{uuid.uuid4().hex}")
        self.has_init = has_init
        plain = {
            "engine_retries": 0,
            "max_retries": 0,
            "grace_s": 1,
            "watches_others": False,
            "has_init": has_init,
        }
        retries = cast("int", settings.get("engine_retries", 0))
        chosen = ShimSettings(key=_KEY, index=0, **{**plain, **settings})  # type: ignore[arg-type]  # a test's own
        self.container = client.containers.create(
            image,
            command(chosen, argv),
            user=user,
            init=has_init,
            environment=["TINI_KILL_PROCESS_GROUP=1", *env],
            mounts=[Mount(DATA, self.volume.name, type="volume")],
            restart_policy={"Name": "on-failure", "MaximumRetryCount": retries} if retries else None,
        )
        self.container.put_archive(DATA, archive({}, ("state", "reports")))

    def put(self, name: str, text: str) -> None:
        """Write a file of the state."""
        self.container.put_archive(STATE, archive({name: text}))

    def start(self) -> int:
        """Start it, wait until it is down for good, and return its exit code."""
        self.container.start()
        return self.end()

    def end(self) -> int:
        """Wait until it is down for good, and return its exit code."""
        while True:
            self.container.wait()  # its code may be 0 while the engine starts the container again
            self.container.reload()
            if self.container.status == "exited":
                return cast("int", self.container.attrs["State"]["ExitCode"])

    def wait_for(self, text: str) -> None:
        """Wait until it has printed the text."""
        wait_until(lambda: text.encode() in self.container.logs(), 240)

    @property
    def volume_state(self) -> VolumeState:
        """What the script wrote down."""
        chunks, _ = self.container.get_archive(STATE)
        return read_volume_state(b"".join(chunks))

    @property
    def attempts(self) -> list[tuple[int | None, bool]]:
        """Exit code of each attempt, and whether it was told to end."""
        return [(a.code, a.told) for a in self.volume_state.attempts[0]]

    def printed(self, *, stdout: bool = True, stderr: bool = False) -> list[str]:
        """What it printed, with ``<n>`` for the mark of attempt n."""
        text = self.container.logs(stdout=stdout, stderr=stderr).decode()
        marked = re.sub(f"\x1etorchx:{_KEY}:(\\d+)", r"<\1>", text)
        return marked.removesuffix("\n").split("\n")

    def remove(self) -> None:
        """Remove container and volume."""
        self.container.remove(force=True)
        self.volume.remove()


Host: TypeAlias = tuple[str, bool]
"""A shell, and whether the container's process 1 is the engine's init program."""
HOST: Host = ("dash", False)  # the contract's apps have the other shell, and the engine's init
MORE_HOSTS: tuple[Host, ...] = (("busybox", True), ("busybox", False), ("dash", True))


@pytest.fixture(
    scope="module",
    params=[HOST, *(pytest.param(host, marks=pytest.mark.slow) for host in MORE_HOSTS)],
    ids=lambda host: f"{host[0]}-{'init' if host[1] else 'no-init'}",
)
def host(request: pytest.FixtureRequest) -> Host:
    """What the script finds in the container."""
    return cast("Host", request.param)


@pytest.fixture(scope="module")
def image(host: Host, engine: object) -> str:
    """An image whose ``/bin/sh`` is the shell."""
    if host[0] == "busybox":
        return SHELL_IMAGE
    client = docker.DockerClient(base_url=engine.url)  # type: ignore[attr-defined]  # a DockerEngine
    _import_dash(client)
    client.close()
    return DASH_IMAGE


def _import_dash(client: docker.DockerClient) -> None:
    """Put dash over the shell image."""
    told = subprocess.run(["ldd", "/bin/dash"], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"(/\S+) \(0x", told)
    base = client.containers.create(SHELL_IMAGE, "x")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add("/bin/dash", arcname="bin/dash")
        for library in libraries:
            tar.add(Path(library).resolve(), arcname=library.lstrip("/"))
        link = tarfile.TarInfo("bin/sh")
        link.type, link.linkname = tarfile.SYMTYPE, "dash"
        tar.addfile(link)
    base.put_archive("/", buffer.getvalue())
    base.commit(*DASH_IMAGE.split(":"))
    base.remove()


@pytest.fixture
def play(client: docker.DockerClient, image: str, host: Host) -> Iterator[Play]:
    """Make a replica that runs a script (or the words given), and remove it afterwards."""
    made: list[Replica] = []

    def make(program: str | list[str], **settings: object) -> Replica:
        argv = program if isinstance(program, list) else ["sh", "-c", program]
        made.append(Replica(client, image, argv, has_init=host[1], **settings))  # type: ignore[arg-type]  # a test's own
        return made[-1]

    yield make
    for replica in made:
        replica.remove()


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -11 $$", 139)],
)
def test_exit_codes_are_the_programs(play: Play, script: str, code: int) -> None:
    """In the container and in the journal; the shell's own remarks are nowhere."""
    replica = play(script)
    assert replica.start() == code
    assert replica.attempts == [(code, False)]
    assert replica.printed(stdout=True, stderr=False) == ["<0>"]
    assert replica.printed(stdout=False, stderr=True) == ["<0>"]


@pytest.mark.parametrize("name", ["echo", "exit", "tx_watch", "cd", "if"])
def test_no_word_of_the_shell_takes_the_programs_place(play: Play, name: str) -> None:
    """Builtins, keywords and functions of the script are not what an entrypoint names."""
    replica = play([name, "x"])
    if name == "echo":
        assert (replica.start(), replica.printed()) == (0, ["<0>", "x"])
    else:
        assert replica.start() == 127


@pytest.mark.parametrize("words", [["a b", "$HOME", "'; echo", "*", "", "-n", "ü\n"]])
def test_arguments_arrive_as_they_are(play: Play, words: list[str]) -> None:
    """Nothing is expanded."""
    replica = play(["sh", "-c", 'printf "[%s]" "$@"', "sh", *words])
    assert replica.start() == 0
    assert "\n".join(replica.printed()[1:]) == "".join(f"[{word}]" for word in words)


def test_the_environment_is_the_programs(play: Play) -> None:
    """It has what is told of the attempt, and nothing of the script's."""
    replica = play("env", env=("i=5", "n=6", "TORCHELASTIC_ERROR_FILE=/mine"))
    replica.start()
    env = dict(line.split("=", 1) for line in replica.printed()[1:])
    assert (env["i"], env["n"], env["TORCHX_ATTEMPT"]) == ("5", "6", "0")
    assert (env["TORCHX_REPORT_FILE"], env["TORCHELASTIC_ERROR_FILE"]) == (f"{DATA}/reports/0.0", "/mine")
    assert not [name for name in env if name.startswith("tx_")]


def test_the_program_has_no_children_of_others(play: Play) -> None:
    """The watcher is nobody's child; the program may wait for all its own."""
    replica = play("wait; ps -o ppid,args | grep -c 'tx_wat[c]h' || true; echo done", lease_s=60)
    assert replica.start() == 0
    assert replica.printed()[-1] == "done"


def test_sigterm_reaches_the_program(play: Play) -> None:
    """It ends as it likes; the journal knows that it was told to."""
    replica = play("trap 'echo bye; exit 6' TERM; echo up; while :; do sleep 0.1; done")
    replica.container.start()
    replica.wait_for("up")
    replica.container.stop(timeout=10)
    assert (replica.end(), replica.attempts) == (6, [(6, True)])
    assert replica.printed()[-1] == "bye"
    assert replica.volume_state.over is None  # whoever told it knows why


def test_engine_retries_are_attempts(play: Play) -> None:
    """Marked in the log, with files of their own; the last failure ends the app."""
    replica = play("echo $TORCHX_REPORT_FILE; exit $((3 + TORCHX_ATTEMPT))", engine_retries=2, max_retries=2)
    assert replica.start() == 5
    assert replica.attempts == [(3, False), (4, False), (5, False)]
    reports = [line for n in range(3) for line in (f"<{n}>", f"{DATA}/reports/0.{n}")]
    assert replica.printed() == reports
    assert replica.volume_state.over is not None
    assert (replica.volume_state.over.why, replica.volume_state.over.index) == ("failed", 0)


@pytest.mark.parametrize("code", [0, 5])
def test_a_second_start_runs_nothing(play: Play, code: int) -> None:
    """Two who look at once may both start it: the exit code stays, and there is no trace."""
    replica = play(f"echo once; exit {code}")
    replica.start()
    assert replica.start() == code
    assert replica.printed() == ["<0>", "once"]
    assert replica.attempts == [(code, False)]


def test_an_ordered_attempt_runs_once(play: Play) -> None:
    """However often it is started."""
    replica = play("exit $TORCHX_ATTEMPT", max_retries=5)
    replica.start()
    replica.put("order.0", "1\n")
    assert [replica.start(), replica.start(), replica.start()] == [1, 1, 1]
    assert replica.attempts == [(0, False), (1, False)]


def test_what_was_killed_with_the_script_is_noted(play: Play) -> None:
    """At the next start, by what the one who ordered it has seen."""
    replica = play("[ $TORCHX_ATTEMPT = 1 ] || while :; do sleep 0.1; done", max_retries=1)
    replica.container.start()
    replica.wait_for("torchx")
    replica.container.kill()
    replica.end()
    assert replica.attempts == [(None, False)]
    replica.put("order.0", "1 137 1234.5\n")
    replica.start()
    first, second = replica.volume_state.attempts[0]
    assert (first.code, first.told, first.ended_at, second.code) == (137, True, 1234.5, 0)


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"lease_s": 2}, "lease"), ({"timeout_s": 2}, "deadline"), ({"deadline": 1}, "deadline")],
)
@pytest.mark.parametrize("user", ["", "65534"])
def test_time_is_up(play: Play, settings: dict[str, int], why: str, user: str) -> None:
    """The program is told to end; the engine's retries are not for this."""
    replica = play("while :; do sleep 0.1; done", user=user, engine_retries=3, max_retries=3, **settings)
    replica.start()
    assert replica.attempts == [(143, True)]
    assert replica.volume_state.over is not None
    assert replica.volume_state.over.why == why


def test_what_does_not_end_is_killed(play: Play) -> None:
    """After the grace period, with all that it started."""
    replica = play("trap '' TERM; sleep 1000 & while :; do sleep 0.1; done", lease_s=3)
    assert replica.start() == 137
    # A script that is process 1 is spared, and writes down what it sees.
    assert replica.attempts == [(None, False) if replica.has_init else (137, True)]


def test_another_replicas_failure_ends_it(play: Play) -> None:
    """It is not started again."""
    replica = play("echo up; while :; do sleep 0.1; done", watches_others=True, engine_retries=1)
    replica.container.start()
    replica.wait_for("up")
    replica.put("over", "failed 1 7\n")
    replica.end()
    replica.start()
    assert replica.attempts == [(143, True)]


def test_a_lease_that_is_renewed_lasts(play: Play) -> None:
    """Whatever is written there, as long as it changes."""
    replica = play(
        "i=0; while [ $i -lt 16 ]; do echo $i >/run/torchx/lease; sleep 0.5; i=$((i+1)); done; exit 3",
        lease_s=5,
        user="0",
    )
    assert replica.start() == 3
