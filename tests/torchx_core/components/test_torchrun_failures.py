"""A failure of a real PyTorch program names the rank that really failed first, though it has no @record.

Two nodes on this host, with two ranks each. The program notes who fails, for the test to compare.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchx_core import AppDef, AppState, AppStatus, Role, Runner, get_runner
from torchx_core.specs import macros

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

TRAIN = """
import ctypes, os, signal, sys, time
import torch, torch.distributed as dist

how, who, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo")
rank, total = dist.get_rank(), torch.ones(1)

def load_batch(number):
    raise ValueError(f"bad batch {number}")

def main():
    for step in range(3):
        dist.all_reduce(total)
        print("step", step, flush=True)
    if rank == who:
        with open(place + "/failed", "a") as file:
            file.write(str(rank))
        match how:
            case "raises":
                load_batch(7)
            case "exits":
                sys.exit(7)
            case "exits_hard":
                os._exit(9)
            case "is_killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "crashes":
                ctypes.string_at(0)
            case "hangs":
                time.sleep(3600)
    open(place + f"/in.{rank}", "w").close()
    dist.all_reduce(total)
    dist.barrier()

if __name__ == "__main__":
    main()
"""
RECORDED = TRAIN.replace(
    "def main", "from torch.distributed.elastic.multiprocessing.errors import record\n\n@record\ndef main"
)

RAISED = r"\(.*\): ValueError: bad batch 7 \(\S+/train\.py:\d+, in load_batch\)"


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner with a state directory of its own; `torchrun` is this environment's."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))  # made by PyTorch at times
    with get_runner("s", state_dir=str(tmp_path / "state")) as runner:
        yield runner
        for app in runner.list("local_cwd"):  # what a failed test left running
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle, timeout_s=240)


def train(
    runner: Runner, tmp_path: Path, how: str, who: int, *, text: str = TRAIN, timeout_s: float | None = None
) -> AppStatus:
    """Train until the rank fails in that way, and return how the app ended."""
    (tmp_path / "train.py").write_text(text)
    words = ["-j", "2x2", "--script", str(tmp_path / "train.py"), "--", how, str(who), str(tmp_path)]
    handle = runner.run_component("dist.torchrun", words, "local_cwd", {"timeout_s": timeout_s})
    status = runner.wait(handle, timeout_s=400)
    assert status is not None
    return status


def failed(tmp_path: Path) -> str:
    """Return who really failed."""
    return (tmp_path / "failed").read_text()


CASES = {
    "raises": (
        3,
        TRAIN,
        r"failed with exit code 1 \(.*\): ValueError: bad batch 7 \(\S+/train\.py:\d+, in load_batch\)",
    ),
    "raises with @record": (
        0,
        RECORDED,
        r"failed with exit code 1 \(.*\): ValueError: bad batch 7 \(\S+, in load_batch\)",
    ),
    "exits": (2, TRAIN, r"failed with exit code 7 \(.*\): SystemExit: 7 \(\S+/train\.py:\d+, in main\)"),
    "exits_hard": (1, TRAIN, r"failed with exit code 9 \(.*\); app is FAILED"),
    "is_killed": (1, TRAIN, r"was killed by SIGKILL \(.*\); app is FAILED"),
    "crashes": (2, TRAIN, r"was killed by SIGSEGV \(.*\)"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rank_that_failed_leads(runner: Runner, tmp_path: Path, case: str) -> None:
    """By how it ended, what it raised and where; not a peer that lost its connection, nor torchrun."""
    who, text, ending = CASES[case]
    status = train(runner, tmp_path, case.split(maxsplit=1)[0], who, text=text)
    headline, *rest = status.failure_summary().split("\n")
    assert status.state is AppState.FAILED
    assert failed(tmp_path) == str(who)
    assert re.match(rf"rank {who} of replica train/{who // 2} {ending}", headline), status.failure_summary()
    assert not any("Connection closed" in line for line in rest if line.startswith("  error"))
    assert ("raise ValueError" in "\n".join(rest)) == ("raises" in case)


def test_a_hang_shows_where_every_rank_was(runner: Runner, tmp_path: Path) -> None:
    """At the deadline, which ends it: one sleeps, the others wait for it."""
    for timeout_s in (30.0, 120.0):
        status = train(runner, tmp_path, "hangs", 0, timeout_s=timeout_s)
        if len(list(tmp_path.glob("in.*"))) == 3:  # else this host was too busy to get there in time
            break
    assert status.state is AppState.CANCELLED
    _, message, *places = status.failure_summary().split("\n")
    assert message == f"  message: deadline passed: it ran for {timeout_s:g} s"
    who = [line.strip().partition(" was at ")[0] for line in places]
    assert who == [f"local rank {rank} of train/{node}" for node in (0, 1) for rank in (0, 1)]
    assert re.search(r"was at \S+/train\.py:\d+, in main$", places[0])
    for line in places[1:]:
        assert re.search(
            r"was at torch/distributed/\S+:\d+, in all_reduce, called from \S+/train\.py:\d+, in main$", line
        )


@pytest.mark.parametrize(
    ("how", "ending"),
    [
        ("raises", rf"(?P<how>failed with exit code 1|was killed by SIGABRT) {RAISED}"),
        ("is_killed", r"was killed by SIGKILL \(.*\); app is FAILED"),
    ],
)
def test_a_torchrun_of_somebody_else_s(runner: Runner, tmp_path: Path, how: str, ending: str) -> None:
    """An app that runs it itself: what it prints says who failed, and what that rank has printed says why."""
    (tmp_path / "train.py").write_text(TRAIN)
    words = [
        "--standalone",
        "--nproc_per_node",
        "2",
        "--tee",
        "3",
        str(tmp_path / "train.py"),
        how,
        "1",
        str(tmp_path),
    ]
    app = AppDef("own", [Role(name="own", image="", entrypoint="torchrun", args=words)])
    status = runner.wait(runner.run(app, "local_cwd"), timeout_s=400)
    assert status is not None
    assert failed(tmp_path) == "1"
    told = re.match(rf"rank 1 of replica own/0 {ending}", status.failure_summary())
    assert told, status.failure_summary()
    if (
        how == "raises"
    ):  # PyTorch's own threads may abort a process that ends with an exception: torchrun knows
        log = Path(status.roles[0].replicas[0].log_dir, "combined.log").read_text()
        aborted = "(exitcode: -6) local_rank: 1" in log
        assert told["how"] == ("was killed by SIGABRT" if aborted else "failed with exit code 1")


def test_a_program_that_no_torchrun_has_started(runner: Runner, tmp_path: Path) -> None:
    """Each replica is a rank, whose exception PyTorch marks: who raised leads, by what and where."""
    places = [f"init_method='file://{tmp_path}/store'", "rank=int(os.environ['ME'])", "world_size=2"]
    text = TRAIN.replace('"gloo"', f'"gloo", {", ".join(places)}')
    (tmp_path / "train.py").write_text(text)
    words = [str(tmp_path / "train.py"), "raises", "1", str(tmp_path)]
    env = {"ME": macros.replica_id}
    role = Role(name="own", image="", entrypoint=sys.executable, args=words, num_replicas=2, env=env)
    status = runner.wait(runner.run(AppDef("own", [role]), "local_cwd"), timeout_s=400)
    assert status is not None
    assert failed(tmp_path) == "1"
    # as above; the kernel knows
    how = "failed with exit code 1" if status.roles[0].replicas[1].exit_code == 1 else "was killed by SIGABRT"
    assert re.match(rf"replica own/1 {how} {RAISED}", status.failure_summary()), status.failure_summary()
