"""Who is blamed for a failure, and by what: who first failed of itself, not who followed from that."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from torchx_core.specs import NONE, AppState, AppStatus, LastLines, ReplicaStatus, RoleStatus
from torchx_core.specs.failure import MAX_READ, find_failure

TRACE = ["Traceback (most recent call last):", '  File "train.py", line 7, in load', "ValueError: bad batch"]
OF_RANK_1 = [f"[rank1]: {line}" for line in TRACE]
PEER_GONE = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1"
NCCL = "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:93, "
NCCL_PEER_GONE = f"{NCCL}remote process exited or there was a network error, NCCL version 2.28.9"
NCCL_MISUSED = f"{NCCL}invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9"
NOTICED = "E1 api.py] failed (exitcode: -9) local_rank: 1 (pid: 8) of binary: /p"
SUMMARY = [
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "Root Cause (first observed failure):",
    "[0]:",
    "  rank      : 1 (local_rank: 1)",
    "  exitcode  : -9 (pid: 8025)  (SIGKILL)",
    "  traceback : Signal 9 (SIGKILL) received by PID 8025",
    "=" * 60,
]


def error(
    message: str, *, at: float | None = None, rank: int | None = None, code: int = 1, trace: str = ""
) -> str:
    """Return what a rank's program leaves in its error file."""
    extra = {"timestamp": "0", "py_callstack": trace, "time": at, "rank": None if rank is None else str(rank)}
    return json.dumps({"message": {"message": message, "errorCode": code, "extraInfo": extra}})


def replica(number: int, state: AppState = AppState.FAILED, told: str = NONE, **facts: Any) -> ReplicaStatus:
    """A replica of the role ``train``; by default its torchrun ended with 1."""
    facts = {"exit_code": 1, "ended_at": 100.0, **facts}
    return ReplicaStatus(number, state, "train", "", told, **facts)


def failed(*replicas: ReplicaStatus, lines: Mapping[int, list[str]] | None = None, **facts: Any) -> AppStatus:
    """A failed app whose replicas printed these lines last, on stderr."""
    status = AppStatus(AppState.FAILED, roles=[RoleStatus("train", list(replicas))], **facts)
    if lines is not None:
        known = {number: LastLines(texts, texts) for number, texts in lines.items()}
        status.last_lines = lambda replica: known.get(replica.id, LastLines((), ()))
    return status


STOPPED = AppState.CANCELLED
THEN = "at 1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("status", "headline"),
    [
        (
            failed(replica(0, told=error("ValueError: bad batch", at=5.0, rank=3, trace="\n".join(TRACE)))),
            f"rank 3 of replica train/0 failed with exit code 1 ({THEN}): ValueError: bad batch (train.py:7",
        ),
        (
            failed(replica(0, told=error("SystemExit: 7", at=5.0, rank=2, code=7))),
            f"rank 2 of replica train/0 failed with exit code 7 ({THEN}); app is FAILED",
        ),
        (
            failed(replica(0), lines={0: SUMMARY}),
            "rank 1 of replica train/0 was killed by SIGKILL; app is FAILED",
        ),
        (
            failed(replica(0), lines={0: [NOTICED]}),
            "a rank of replica train/0 was killed by SIGKILL; app is FAILED",
        ),
        (
            failed(replica(0), lines={0: TRACE}),
            "replica train/0 failed with exit code 1: ValueError: bad batch (train.py:7, in load); app is",
        ),
        (
            failed(replica(0), lines={0: ["W1 a warning", *OF_RANK_1]}),
            "replica train/0 failed with exit code 1: ValueError: bad batch (train.py:7, in load); app is",
        ),
        (
            failed(replica(0), lines={0: [*OF_RANK_1, TRACE[0], "CalledProcessError: 1"]}),
            "replica train/0 failed with exit code 1: ValueError: bad batch (train.py:7, in load); app is",
        ),
        (
            failed(replica(0, exit_code=None, signal="SIGABRT"), lines={0: OF_RANK_1}),
            "replica train/0 was killed by SIGABRT: ValueError: bad batch (train.py:7, in load); app is",
        ),
        (
            failed(replica(0, exit_code=None, signal="SIGABRT"), lines={0: TRACE}),
            "replica train/0 was killed by SIGABRT; app is FAILED",
        ),
        (
            failed(replica(0, exit_code=None, signal="SIGKILL"), lines={0: OF_RANK_1}),
            "replica train/0 was killed by SIGKILL; app is FAILED",
        ),
        (
            failed(
                replica(0, exit_code=None, signal="SIGKILL", msg="out of memory: memMB limits it to 9 MB")
            ),
            "replica train/0 was killed by SIGKILL: out of memory: memMB limits it to 9 MB; app is FAILED",
        ),
        (
            failed(replica(0, exit_code=None, signal="SIGKILL"), lines={0: TRACE}),
            "replica train/0 was killed by SIGKILL; app is FAILED",
        ),
        (
            failed(replica(0, exit_code=137), lines={0: TRACE}),
            "replica train/0 failed with exit code 137; app is",
        ),
        (
            failed(replica(0, exit_code=None, signal="SIGINT"), lines={0: [TRACE[0], "KeyboardInterrupt"]}),
            "replica train/0 was killed by SIGINT: KeyboardInterrupt; app is FAILED",
        ),
        (
            failed(replica(0, exit_code=3), lines={0: ["no such file"]}),
            "replica train/0 failed with exit code 3; app",
        ),
        (
            failed(
                replica(0, told=error("E: 1", trace=f"{TRACE[0]}\nE: 1")),
                lines={
                    0: [
                        "ChildFailedError:",
                        *SUMMARY[1:4],
                        "  exitcode  : 1 (pid: 3) ",
                        f"  traceback : {TRACE[0]}",
                        "  E: 1",
                        "=" * 60,
                    ]
                },
            ),
            f"rank 1 of replica train/0 failed with exit code 1 ({THEN}): E: 1; app is FAILED",
        ),
    ],
)
def test_the_message_leads_with_who_and_by_what(status: AppStatus, headline: str) -> None:
    """The rank where it is one, its own exit code or signal, what it raised, and where."""
    assert status.failure_summary().startswith(headline)


OWN = error("ValueError: bad batch", at=10.0, rank=3)
PEERS = error(PEER_GONE, at=10.2, rank=0)
EARLY_PEERS = error(PEER_GONE, at=9.9, rank=0)
NO_RANKS = error("SignalException: Process 5 got signal: 15")


@pytest.mark.parametrize(
    ("status", "blamed"),
    [
        (failed(replica(0, told=PEERS, ended_at=11.0), replica(1, told=OWN, ended_at=12.0)), 1),
        (failed(replica(0, told=EARLY_PEERS, ended_at=11.0), replica(1, told=OWN, ended_at=12.0)), 1),
        (failed(replica(0, told=PEERS, ended_at=11.0), replica(1, STOPPED, told=OWN, ended_at=12.0)), 1),
        (failed(replica(0, told=PEERS, ended_at=11.0), replica(1, STOPPED, told=NO_RANKS, ended_at=12.0)), 0),
        (failed(replica(0, told=OWN, ended_at=11.0), replica(1, STOPPED, told=error("K", at=12.0))), 0),
        (failed(replica(0, told=PEERS), replica(1, told=PEERS, ended_at=90.0), lines={0: SUMMARY}), 0),
        (failed(replica(0, told=PEERS), replica(1, STOPPED), lines={1: SUMMARY}), 1),
        (failed(replica(0, told=PEERS), replica(1, STOPPED), lines={1: [NOTICED]}), 1),
        (failed(replica(0, told=PEERS), replica(1, STOPPED), lines={1: TRACE}), 0),
        (failed(replica(0, ended_at=9.0), replica(1), lines={0: [*TRACE[:2], PEER_GONE], 1: TRACE}), 1),
        (failed(replica(0, ended_at=9.0), replica(1), lines={0: [*TRACE[:2], PEER_GONE]}), 1),
        (failed(replica(0, ended_at=9.0), replica(1, ended_at=8.0)), 1),
        (failed(replica(0, ended_at=9.0), replica(1), lines={0: [*TRACE[:2], NCCL_PEER_GONE], 1: TRACE}), 1),
        (failed(replica(0, ended_at=9.0), replica(1), lines={0: [*TRACE[:2], NCCL_MISUSED], 1: TRACE}), 0),
        (
            failed(
                replica(0, ended_at=9.0),
                replica(1),
                lines={0: [f"[rank0]: {line}" for line in [*TRACE[:2], PEER_GONE]], 1: OF_RANK_1},
            ),
            1,
        ),
    ],
    ids=range(15),
)
def test_the_first_that_failed_of_itself_is_blamed(status: AppStatus, blamed: int) -> None:
    """Not who lost a peer, nor who was told to end; also where torchrun was ended before it told of it."""
    failure = find_failure(status)
    assert failure is not None
    assert failure.replica.id == blamed
    assert failure.replica.role == "train"


def test_where_nobody_else_failed_a_lost_connection_is_the_failure() -> None:
    """It may be a database that is gone."""
    told = error("ConnectionResetError: [Errno 104] Connection reset by peer")
    assert (
        failed(replica(0, told=told)).failure_summary().startswith("replica train/0 failed with exit code 1")
    )


def test_failed_replicas_are_in_that_order() -> None:
    """A stopped one is never among them."""
    status = failed(replica(0, told=PEERS), replica(1, STOPPED, told=OWN), replica(2, ended_at=200.0))
    assert [r.id for r in status.failed_replicas()] == [2, 0]


def test_no_app_makes_it_read_more_than_a_few_logs() -> None:
    """Though a thousand replicas have lost a peer."""
    read: list[int] = []
    status = failed(*(replica(number, told=PEERS) for number in range(1000)))

    def read_lines(replica: ReplicaStatus) -> LastLines:
        read.append(replica.id)
        return LastLines((), ())

    status.last_lines = read_lines
    assert status.failure_summary().startswith("rank 0 of replica train/0 failed with exit code 1")
    assert len(read) <= MAX_READ


def test_the_error_of_the_app_is_that_of_a_silent_replica() -> None:
    """But another replica's is not."""
    own = json.dumps({"message": "no quorum"})
    assert "error: no quorum" in failed(replica(0), structured_error_msg=own).failure_summary()
    later = failed(replica(0, ended_at=1.0), replica(1, told=own), structured_error_msg=own)
    assert "no quorum" not in later.failure_summary()


def test_last_lines_are_what_is_not_told_above() -> None:
    """Neither the traceback again nor torchrun's summary; marks of ranks do not hide that it is the same."""
    told = error("ValueError: bad batch", at=5.0, rank=1, trace="\n".join(TRACE))
    lines = ["[0]:step 1", *(f"[1]:[rank1]: {line}" for line in TRACE), "", *SUMMARY, "x" * 300]
    summary = failed(replica(0, told=told, log_dir="/l"), lines={0: lines}).failure_summary()
    assert summary.split("\n")[1:] == [
        f"  error: {TRACE[0]}",
        *(f"         {line}" for line in TRACE[1:]),
        "  logs: /l",
        "  last lines of train/0:",
        "    [0]:step 1",
        f"    {'x' * 200}",
    ]


def test_last_lines_are_not_those_of_peers_that_lost_their_peer() -> None:
    """Their tracebacks would leave no room for what ranks printed before."""
    lines = [
        "[0]:step 1",
        "[1]:step 1",
        *(f"[1]:[rank1]: {line}" for line in [*TRACE[:2], PEER_GONE]),
        *SUMMARY,
    ]
    told = error("ValueError: bad batch", at=5.0, rank=0)
    summary = failed(replica(0, told=told), lines={0: lines}).failure_summary()
    assert summary.endswith("  last lines of train/0:\n    [0]:step 1\n    [1]:step 1")


def any_lines(both: list[str], stderr: list[str], _: ReplicaStatus) -> LastLines:
    """Return the lines, whoever printed them."""
    return LastLines(both, stderr)


def test_a_program_of_another_kind_is_told_by_its_stderr() -> None:
    """Where that is empty, by what it printed at all."""
    status = failed(replica(0, exit_code=2))
    for both, stderr, last in ((["out", "err"], ["err", " "], "err"), (["out", ""], [], "out")):
        status.last_lines = partial(any_lines, both, stderr)
        assert status.failure_summary().endswith(f"  last lines of train/0:\n    {last}")


@pytest.mark.parametrize(
    ("both", "stderr", "exception"),
    [
        (["step", *TRACE], [], "ValueError: bad batch"),
        ([*TRACE, "a warning"], ["a warning"], "ValueError: bad batch"),
        ([*TRACE[:2], "E: of stdout", *TRACE], TRACE, "ValueError: bad batch"),
        ([*TRACE, *TRACE[:2], "E: of stdout"], TRACE, "ValueError: bad batch"),
        (["step"], [], ""),
    ],
)
def test_an_exception_may_stand_on_stdout(both: list[str], stderr: list[str], exception: str) -> None:
    """Where a program logs to its stdout; what stderr says comes first."""
    status = failed(replica(0))
    status.last_lines = partial(any_lines, both, stderr)
    failure = find_failure(status)
    assert failure is not None
    assert failure.exception == exception


def test_where_everybody_was_at_the_deadline() -> None:
    """Of a hang the log has the stacks, and the message the places; of another cancel it has none."""
    stacks = [
        "[0]:Timeout (0:00:18)!",
        "[0]:Thread 0x7f (most recent call first):",
        '[0]:  File "a.py", line 3 in f',
    ]
    late = replace(failed(replica(0, STOPPED)), state=STOPPED, msg="deadline passed: it ran for 20 s")
    late.last_lines = lambda _: LastLines(stacks, stacks)
    assert late.failure_summary().split("\n") == [
        "job did not succeed: app is CANCELLED",
        "  message: deadline passed: it ran for 20 s",
        "  local rank 0 of train/0 was at a.py:3, in f",
    ]
    late.msg = "cancelled by a user"
    assert "a.py" not in late.failure_summary()


def pickled(status: AppStatus) -> AppStatus:
    """Return what another process gets."""
    return pickle.loads(pickle.dumps(status))  # type: ignore[no-any-return]  # it is what went in


def itself(status: AppStatus) -> AppStatus:
    """Return the same object."""
    return status


@pytest.mark.parametrize("copy", [pickled, deepcopy, replace, itself])
def test_what_reads_last_lines_is_no_part_of_the_status(copy: Callable[[AppStatus], AppStatus]) -> None:
    """It is not compared, written or pickled: another process cannot use it."""
    status = failed(replica(0), lines={0: ["x"]})
    other = copy(status)
    assert other == status == failed(replica(0))
    assert "last_lines" not in json.dumps(status.to_json())
    assert "last_lines" not in repr(status)
    assert "last lines" in status.failure_summary()
    assert ("last lines" in other.failure_summary()) == (other is status)


def test_a_long_error_is_told_by_its_end() -> None:
    """A message is for people; what was raised comes last."""
    told = error(
        "ValueError: " + "x" * 1000, at=1.0, trace="\n".join([*TRACE[:2] * 5000, "ValueError: " + "x" * 1000])
    )
    summary = failed(replica(0, told=told)).failure_summary()
    assert len(summary) < 15_000
    assert len(summary.split("\n")[0]) < 500
