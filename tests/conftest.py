"""Every test runs in a home of its own and leaves nothing behind: no process, thread, descriptor or file."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from shared import SHARED_HOME

MARKER = "TORCHX_CORE_TEST"
ZYGOTE_IDLE_S = "TORCHX_ZYGOTE_IDLE_S"
ZYGOTES: set[int] = set()
"""What has waited for the next submit of a local app, as on a user's host; it ends with the test run."""
END_TIMEOUT_S = 60.0
HOME = pytest.StashKey[Path]()
FROZEN = pytest.StashKey[int]()
"""How many modules were loaded when the garbage collector was last told to leave alone what there is."""
MANY_MODULES = 200
"""What a test loads that is the first to use an engine."""
PREFECTS_THREAD = "EventsWorkerThread"
"""Lives on in a process that has run a flow, sends Prefect's events, and may connect anew at any time."""
IDLE_THREAD = "torchx-idle"
"""Waits for work of the package for Prefect (`prefect_torchx.background`)."""

with contextlib.suppress(ImportError):  # older engines' environments have no need of it
    from hypothesis import HealthCheck, settings

    # How long an example takes is the machine's business; the first ones draw tables of all Unicode.
    settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    # The same commit passes, or fails, the same tests; `--hypothesis-profile=explore` draws other examples.
    settings.register_profile("repeatable", settings.get_profile("explore"), derandomize=True)
    settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Point HOME, the XDG folders, TMPDIR and the engines' homes into a throw-away folder.

    Done before any test is collected, because Airflow settles its home when it is imported. The folder's name
    is short, because a socket's path ends at 108 bytes.
    """
    # A script's `nohup make test &` ignores these, and so would the programs that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    home = Path(tempfile.mkdtemp(prefix="tx-"))
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # `tmp_path` stays where it was
    folders = {"HOME": home, "TMPDIR": home / "tmp", "XDG_STATE_HOME": home / "state"}
    folders |= {"XDG_CONFIG_HOME": home / "config", "XDG_CACHE_HOME": home / "cache"}
    folders |= {"AIRFLOW_HOME": home / "engines" / "airflow", "PREFECT_HOME": home / "engines" / "prefect"}
    for variable, folder in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[variable] = str(folder)
    os.environ.setdefault(SHARED_HOME, str(home / "shared"))  # the processes of pytest-xdist inherit it
    os.environ.pop("TORCHX_STATE_DIR", None)
    os.environ[ZYGOTE_IDLE_S] = str(random.uniform(2000, 3000))  # so that this process has one of its own
    # Of the server that Prefect starts for a script; 20 s are too few on a host with much else to do.
    os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "600"
    tempfile.tempdir = str(folders["TMPDIR"])
    config.stash[HOME] = home
    if os.environ.get("COVERAGE_RUN"):
        sys.executable = _python_with_site(home / "python")


def _python_with_site(path: Path) -> str:
    """Write a Python that ignores ``-S``: without its site module, a supervisor would not be measured."""
    path.write_text(
        '#!/bin/sh\nfor arg; do shift; [ "$arg" = -S ] || set -- "$@" "$arg"; done\n'
        f'exec {sys.executable} "$@"\n'
    )
    path.chmod(0o700)
    return str(path)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the zygotes, and remove the throw-away folder."""
    own = f"{ZYGOTE_IDLE_S}={os.environ[ZYGOTE_IDLE_S]}\0".encode()
    for pid in _processes():
        if _is_zygote(pid) and (pid in ZYGOTES or own in _read(pid, "environ")):
            _kill(pid)
    shutil.rmtree(config.stash[HOME], ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Share the tests among the processes of `make test`; the slow ones take xdist's way."""
    if config.getoption("dist") != "loadfile" or config.getoption("loadscopereorder"):
        return None
    from one_airflow import OneAirflow

    return OneAirflow(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Look for no garbage while all tests are imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        _freeze(session.config)
        gc.enable()


def _freeze(config: pytest.Config) -> None:
    """Look for garbage once more, and never again among what there is: it was a third of the CPU."""
    gc.collect()
    gc.freeze()
    config.stash[FROZEN] = len(sys.modules)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have servers and clusters say how things stand when a test fails: it may not fail again."""
    report = yield
    if report.failed and call.when == "call":
        for name, value in getattr(item, "funcargs", {}).items():
            explain = getattr(type(value), "explain_failure", None)
            if explain is not None:
                report.sections.append((f"how {name} stands", explain(value)))
    return report


@pytest.fixture(scope="session")
def private_home(pytestconfig: pytest.Config) -> Path:
    """The home that every test of this run, and every process it starts, believes to have."""
    return pytestconfig.stash[HOME]


@pytest.fixture(scope="session")
def shared_home() -> Path:
    """A folder of the whole test run, for servers that all its processes use."""
    return Path(os.environ[SHARED_HOME])


@pytest.fixture(autouse=True)
def no_leaks(
    request: pytest.FixtureRequest, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Fail the test that leaves something behind.

    A process counts when it is a descendant of ours or of a zygote's, or when it carries this test's marker
    in its environment, which also finds what has daemonized. Engines keep threads, sockets, temporary files
    and signal handlers on purpose, so tests marked ``engine`` answer for their processes only; their handlers
    are put back.
    """
    marker = uuid.uuid4().hex
    monkeypatch.setenv(MARKER, marker)
    processes = _processes()
    threads, descriptors, files = _threads(), _descriptors(), _files(private_home)
    handlers = _signal_handlers()
    yield
    problems, replaced = _left_processes(marker, processes), _left_signal_handlers(handlers)
    if request.node.get_closest_marker("engine") is None:
        problems += _left_threads(threads) + _left_descriptors(descriptors) + replaced
        problems += [f"file {path}" for path in sorted(_files(private_home) - files)]
    if len(sys.modules) > request.config.stash[FROZEN] + MANY_MODULES:
        _freeze(request.config)
    if problems:
        pytest.fail("the test left behind: " + "; ".join(problems), pytrace=False)


def _signal_handlers() -> dict[signal.Signals, object]:
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


def _left_signal_handlers(before: dict[signal.Signals, Any]) -> list[str]:
    """Put the handlers back that were there, and name those that were not."""
    left = {number: now for number, now in _signal_handlers().items() if now != before[number]}
    for number in left:
        signal.signal(number, before[number])
    return [f"handler of {number.name}: {handler}" for number, handler in left.items()]


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Finalise nothing in a test that uses up the stack: a finaliser has none left there, and fails."""
    gc.disable()
    yield
    gc.enable()


# --- processes


def _left_processes(marker: str, known: set[int]) -> list[str]:
    """Give what the test started a moment to end; kill and name what does not.

    Look again after each wait: what ended may have started something in the meantime.
    """
    deadline = time.monotonic() + END_TIMEOUT_S
    left: dict[int, str] = {}
    while pids := _started(marker, known) - left.keys() - ZYGOTES:
        for pid in pids:
            if not _ends_before(pid, deadline):
                left[pid] = f"process {pid} {_describe(pid)}"
                _kill(pid)
    return list(left.values())


def _processes() -> set[int]:
    """Return every process of this host, zombies too."""
    return {int(name) for name in os.listdir("/proc") if name.isdecimal()}


def _started(marker: str, known: set[int]) -> set[int]:
    """Return the living processes that are not known, and are descendants of ours or carry the marker.

    Look twice: a process shows no environment within its exec, and may fork and end during one look.
    """
    wanted = f"{MARKER}={marker}".encode()
    looks = (pid for _ in range(2) for pid in _processes() - known)
    return {pid for pid in looks if wanted in _read(pid, "environ") or _is_ours(pid)}


def _is_ours(pid: int) -> bool:
    """Return whether the process runs and is a descendant of this one or of a zygote."""
    state, parent = _state_and_parent(pid)
    if state in "ZX":
        return False
    while parent not in {0, os.getpid(), *ZYGOTES}:
        _, parent = _state_and_parent(parent)
    return parent != 0


def _state_and_parent(pid: int) -> tuple[str, int]:
    words = _read(pid, "stat").rpartition(b")")[2].split()  # the name before it may have any character
    return (words[0].decode(), int(words[1])) if words else ("X", 0)


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:  # it has ended, or belongs to somebody else
        return b""


def _ends_before(pid: int, deadline: float) -> bool:
    """Wait on a pidfd, which is readable as soon as the process is a zombie: reaping is PID 1's business.

    A zygote, which may be known as one only a moment after its start, is to stay.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        while not _is_zygote(pid):
            if select.select([pidfd], [], [], 0.05)[0]:
                return True
            if time.monotonic() > deadline:
                return False
        ZYGOTES.add(pid)
        return True
    finally:
        os.close(pidfd)


def _is_zygote(pid: int) -> bool:
    return _read(pid, "cmdline").startswith(b"torchx-zygote\0")


def _describe(pid: int) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())
    return "(ended)"


def _kill(pid: int) -> None:
    with contextlib.suppress(psutil.Error):
        psutil.Process(pid).kill()


# --- threads, descriptors, files


def _threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def _left_threads(known: set[threading.Thread]) -> list[str]:
    deadline = time.monotonic() + END_TIMEOUT_S
    while (busy := [t for t in _threads() - known if t.name != IDLE_THREAD]) and time.monotonic() < deadline:
        busy[0].join(0.05)
    return [f"thread {t.name}" for t in busy]


def _descriptors() -> Counter[str]:
    """Count the open descriptors by what they point at."""
    count: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            count[os.readlink(f"/proc/self/fd/{number}")] += 1
    return count


def _left_descriptors(known: Counter[str]) -> list[str]:
    """Name what is left open; a server's thread is given a moment to close what its client has left."""
    if _more_than(known):
        gc.collect()  # a cycle may hold it; an unclosed file in one is reported as a ResourceWarning
    deadline = time.monotonic() + END_TIMEOUT_S
    while (left := _more_than(known)) and threading.active_count() > 1 and time.monotonic() < deadline:
        select.select([], [], [], 0.01)
    return [f"descriptor {target} x{count}" for target, count in left.items()]


def _more_than(known: Counter[str]) -> Counter[str]:
    left = _descriptors() - known
    if any(thread.name == PREFECTS_THREAD for thread in threading.enumerate()):
        left = Counter({target: count for target, count in left.items() if not target.startswith("socket:")})
    return left


def _files(home: Path) -> set[str]:
    """Return what lies in the temporary folder, the home and the current folder; tools' dot files aside."""
    places = (str(home), str(home / "tmp"), os.getcwd())
    return {f"{place}/{name}" for place in places for name in os.listdir(place) if not _is_tools(name)}


def _is_tools(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"
