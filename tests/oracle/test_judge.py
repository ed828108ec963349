"""The judge finds every kind of broken promise in forged histories, and none in a good one."""

from __future__ import annotations

import copy as copying
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from judge import Call, Evidence, Promises, judge
from truth import Copy, Said

Document = dict[str, Any]


def said(stream: str, number: int, text: str, *, sure: bool = True, eol: bool = True) -> Said:
    """A line that a witness noted."""
    return Said(stream, number, text, eol=eol, sure=sure, whole=True)


def ran(replica: int, attempt: int, code: int, **fields: Any) -> Copy:
    """An attempt that printed four lines and reported."""
    who = f"w/{replica}/{attempt}"
    lines = [said(("stdout", "stderr")[i % 2], i // 2, f"{who} {i}") for i in range(4)]
    report = {"type": "metric", "name": "loss", "value": 0.5, "step": attempt}
    given = {"pid": 1, "started": 10.0 * attempt + replica, "exit_code": code, "said": lines, **fields}
    return Copy("w", replica, attempt, 0, reports=[(report, True)], **given)


def shown(copy: Copy) -> list[Document]:
    """What is to be seen of an attempt."""
    of = {"role": copy.role, "replica": copy.replica, "attempt": copy.attempt}
    state = "SUCCEEDED" if copy.exit_code == 0 else "FAILED"
    report = {"type": "metric", "name": "loss", "value": 0.5, "step": copy.attempt}
    return [
        {"type": "replica", **of, "state": "RUNNING"},
        *({"type": "log", **of, "stream": s.stream, "text": s.text, "eol": s.eol} for s in copy.said),
        {**report, **of},
        {"type": "replica", **of, "state": state, "exit_code": copy.exit_code, "signal": copy.signal},
    ]


def ended(copies: list[Copy], state: str) -> Document:
    """The status of an ended app."""
    replicas = [
        {
            "role": c.role,
            "id": c.replica,
            "attempt": c.attempt,
            "state": "SUCCEEDED" if c.exit_code == 0 else "FAILED",
            "exit_code": c.exit_code,
            "signal": c.signal,
            "ended_at": 1.0,
        }
        for c in copies
    ]
    return {"state": state, "msg": "", "result": None, "roles": [{"role": "w", "replicas": replicas}]}


class History:
    """Two replicas, the second of which failed once and was started again with the first."""

    def __init__(self) -> None:
        self.truth = [ran(0, 0, 0), ran(1, 0, 3), ran(0, 1, 0), ran(1, 1, 0)]
        self.status = ended(self.truth[2:], "SUCCEEDED")
        self.chain = [document for copy in self.truth for document in shown(copy)]
        self.chain.append({"type": "state", "state": "SUCCEEDED", "status": copying.deepcopy(self.status)})
        self.promises = Promises(exact=True, max_retries={"w": 1})
        self.seen = Evidence(chains={"follow": self.chain}, statuses={"status": self.status})

    def lines(self) -> list[Document]:
        return [document for document in self.chain if document["type"] == "log"]

    def verdict(self) -> set[str]:
        return {violation.name for violation in judge(self.truth, self.seen, self.promises)}


def test_a_good_history_breaks_no_promise() -> None:
    """A history in which everything was shown as it was has no violation."""
    assert History().verdict() == set()


def _lose_a_line(h: History) -> None:
    h.chain.remove(h.lines()[5])


def _repeat_a_line(h: History) -> None:
    h.chain.insert(3, h.lines()[0])


def _swap_replicas(h: History) -> None:
    for line in h.lines()[:8]:
        line["replica"] = 1 - line["replica"]


def _tell_the_wrong_attempt(h: History) -> None:
    h.lines()[0]["attempt"] = 1


def _tell_the_wrong_stream(h: History) -> None:
    h.lines()[0]["stream"] = "stderr"


def _swap_lines(h: History) -> None:
    first, third = h.lines()[0], h.lines()[2]
    first["text"], third["text"] = third["text"], first["text"]


def _swap_streams(h: History) -> None:
    i = h.chain.index(h.lines()[0])
    h.chain[i], h.chain[i + 1] = h.chain[i + 1], h.chain[i]


def _tear_a_line(h: History) -> None:
    h.lines()[0]["text"] = h.lines()[0]["text"][:-2]


def _join_lines(h: History) -> None:
    h.lines()[0]["eol"] = False


def _invent_a_line(h: History) -> None:
    h.lines()[3]["text"] = "never said"


def _cry_loss(h: History) -> None:
    h.chain.insert(0, {"type": "lost", "role": "w", "replica": 0, "attempt": 0})


def _lose_the_last_lines_after_a_fault(h: History) -> None:
    h.promises.may_lose = True
    h.chain.remove(h.lines()[-1])


def _end_twice(h: History) -> None:
    h.chain.append(h.chain[-1])


def _end_early(h: History) -> None:
    h.chain.insert(2, h.chain.pop())


def _never_end(h: History) -> None:
    h.chain.pop()


def _tell_two_ends(h: History) -> None:
    h.seen.statuses["program"] = ended(h.truth[2:], "CANCELLED")


def _succeed_in_spite(h: History) -> None:
    h.truth[3].exit_code = 3


def _fail_without_a_cause(h: History) -> None:
    h.status["state"] = "FAILED"


def _cancel_unasked(h: History) -> None:
    h.status["state"] = "CANCELLED"


def _excuse_another_message(h: History) -> None:
    h.promises.may_end, h.promises.words = frozenset({"CANCELLED"}), ("by the owner",)
    h.status.update(state="CANCELLED", msg="by somebody else")


def _blame_the_wrong_replica(h: History) -> None:
    h.truth[3].exit_code = 3
    h.status.update(state="FAILED")
    h.status["roles"][0]["replicas"][0]["state"] = "FAILED"


def _tell_the_wrong_code(h: History) -> None:
    next(d for d in h.chain if d.get("exit_code") == 3)["exit_code"] = 4


def _tell_a_code_for_a_signal(h: History) -> None:
    h.truth[1].exit_code, h.truth[1].signal = None, "SIGSEGV"


def _give_up_early(h: History) -> None:
    h.truth, h.chain[:] = h.truth[:2], [d for d in h.chain if d.get("attempt") == 0]
    h.status = ended(h.truth, "FAILED")
    h.seen.statuses["status"] = h.status


def _leave_out_an_attempt(h: History) -> None:
    h.chain[:] = [d for d in h.chain if d["type"] != "replica" or d["attempt"] != 0 or d["replica"]]


def _start_twice(h: History) -> None:
    h.truth.append(replace(h.truth[0], copy=1))


def _overlap(h: History) -> None:
    h.truth[2].overlap = True


def _close_a_pipe(h: History) -> None:
    h.truth[0].broken_pipe = True


def _lose_a_report(h: History) -> None:
    h.chain.remove(next(d for d in h.chain if d["type"] == "metric"))


def _repeat_a_report(h: History) -> None:
    h.chain.insert(9, next(d for d in h.chain if d["type"] == "metric"))


def _return_the_wrong_result(h: History) -> None:
    h.truth[2].reports.append(({"type": "result", "value": 7}, True))


def _invent_success(h: History) -> None:
    h.status["roles"][0]["replicas"].append({"role": "w", "id": 2, "attempt": 0, "state": "SUCCEEDED"})


def _leave_a_replica_running(h: History) -> None:
    h.status["roles"][0]["replicas"][0]["state"] = "RUNNING"


def _hang(h: History) -> None:
    h.seen.calls.append(Call("status", "hung", hung=True))


def _raise_something_else(h: History) -> None:
    h.seen.calls.append(Call("list", "KeyError", ours=False))


def _leave_a_process(h: History) -> None:
    h.seen.alive.append("w.0")


def _leave_a_file(h: History) -> None:
    h.seen.left.append("journal")


FORGED: list[tuple[Callable[[History], None], str]] = [
    (_lose_a_line, "lost-line"),
    (_repeat_a_line, "repeated-line"),
    (_swap_replicas, "strange-line"),
    (_tell_the_wrong_attempt, "lost-line"),
    (_tell_the_wrong_stream, "strange-line"),
    (_swap_lines, "disorder"),
    (_swap_streams, "streams-disordered"),
    (_tear_a_line, "strange-line"),
    (_join_lines, "strange-line"),
    (_invent_a_line, "strange-line"),
    (_cry_loss, "needless-loss"),
    (_lose_the_last_lines_after_a_fault, "lost-line"),
    (_end_twice, "no-single-end"),
    (_end_early, "no-single-end"),
    (_never_end, "no-single-end"),
    (_tell_two_ends, "two-ends"),
    (_succeed_in_spite, "wrong-state"),
    (_fail_without_a_cause, "wrong-state"),
    (_cancel_unasked, "wrong-state"),
    (_excuse_another_message, "wrong-state"),
    (_blame_the_wrong_replica, "wrong-end"),
    (_tell_the_wrong_code, "wrong-end"),
    (_tell_a_code_for_a_signal, "wrong-end"),
    (_give_up_early, "wrong-state"),
    (_leave_out_an_attempt, "changes"),
    (_start_twice, "ran-twice"),
    (_overlap, "two-at-once"),
    (_close_a_pipe, "pipe-closed"),
    (_lose_a_report, "reports"),
    (_repeat_a_report, "reports"),
    (_return_the_wrong_result, "wrong-result"),
    (_invent_success, "invented"),
    (_leave_a_replica_running, "unended"),
    (_hang, "hang"),
    (_raise_something_else, "foreign-error"),
    (_leave_a_process, "left-running"),
    (_leave_a_file, "left-behind"),
]


@pytest.mark.parametrize(("forge", "name"), FORGED, ids=[forge.__name__.strip("_") for forge, _ in FORGED])
def test_a_forged_history_is_found_out(forge: Callable[[History], None], name: str) -> None:
    """Each forgery of a good history is told by its name."""
    history = History()
    forge(history)
    assert name in history.verdict()


def test_a_line_that_a_kill_cut_off_may_be_shown_or_not() -> None:
    """Bytes whose write had not returned when the program was killed may have arrived in part."""
    for piece in ("", "w/0/0 un", "w/0/0 unsure"):
        history = History()
        first = history.truth[0]
        first.said.append(said("stdout", 2, "w/0/0 unsure", sure=False))
        last = history.lines()[3]
        line = {**last, "stream": "stdout", "text": piece, "eol": False}
        history.chain[history.chain.index(last) + 1 : 0] = [line] if piece else []
        assert history.verdict() == set(), piece


def test_lines_that_were_lost_by_a_fault_and_told_so_are_excused() -> None:
    """After a supervisor's death a notice of the loss excuses missing lines, and nothing else."""
    history = History()
    _lose_the_last_lines_after_a_fault(history)
    history.chain.insert(0, {"type": "lost", "role": "w", "replica": 1, "attempt": 1})
    assert history.verdict() == set()
    _repeat_a_line(history)
    assert history.verdict() == {"repeated-line"}


@pytest.mark.parametrize(("may_lose", "verdict"), [(True, set[str]()), (False, {"wrong-end"})])
def test_who_died_at_a_start_may_have_left_the_code_of_the_attempt_before(
    may_lose: bool, verdict: set[str]
) -> None:
    """Where nobody has died the status has the end of the last attempt."""
    history = History()
    history.promises.may_lose, history.promises.may_end = may_lose, frozenset({"CANCELLED"})
    _, before, _, last = history.truth
    last.exit_code = last.signal = None
    ends = [d for d in history.chain if d["type"] == "replica" and d["attempt"] and d["state"] != "RUNNING"]
    history.chain[:] = [d for d in history.chain if d not in ends]
    for status in (history.status, history.chain[-1]["status"]):
        status["state"] = "CANCELLED"
        status["roles"][0]["replicas"][1].update(state="CANCELLED", exit_code=before.exit_code)
    assert history.verdict() & {"wrong-end"} == verdict


@pytest.mark.parametrize(("policy", "is_excused"), [("APPLICATION", True), ("REPLICA", False)])
def test_a_failure_beside_a_peers_costs_no_try(policy: str, is_excused: bool) -> None:
    """A replica that a peer's failure starts again anyway may fail itself a moment later."""
    history = History()
    history.truth = [
        ran(0, 0, 3, started=0.0, last=1.0),
        ran(1, 0, 3, started=0.0, last=2.0),
        ran(1, 1, 3, started=3.0, last=4.0),
        ran(1, 2, 3, started=5.0, last=6.0),
    ]
    history.promises.policies = {"w": policy}
    assert ("too-many-attempts" not in history.verdict()) == is_excused


@pytest.mark.parametrize(("signal", "is_excused"), [("SIGTERM", True), ("SIGKILL", False)])
def test_whoever_dies_of_sigterm_may_be_seen_to_fail_later(signal: str, is_excused: bool) -> None:
    """Slurm ends its jobs by it, so its end counts once it is known that Slurm has not."""
    history = History()
    history.truth = [
        ran(0, 0, 3, started=0.0, last=2.0),
        ran(1, 0, 0, started=0.0, last=1.0, exit_code=None, signal=signal),
        ran(1, 1, 3, started=3.0, last=4.0),
        ran(1, 2, 3, started=5.0, last=6.0),
    ]
    history.promises.policies = {"w": "APPLICATION"}
    history.promises.doubt_s = 2.0
    assert ("too-many-attempts" not in history.verdict()) == is_excused
