"""Puts deliberate bugs into a copy of the product, one at a time, and asks the oracle to find each.

``python tests/oracle/mutants.py``: prints which were caught, by which violation, after how many trials.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engines import ENGINES

REPOSITORY = Path(__file__).parents[2]
CORE = "torchx_core"
MACHINE = f"{CORE}/supervisor/machine.py"
DRIVER = f"{CORE}/supervisor/driver.py"
RELAY = f"{CORE}/supervisor/relay.py"
LOOP = f"{CORE}/supervisor/loop.py"
FEED = f"{CORE}/schedulers/local/feed.py"
READER = f"{CORE}/schedulers/local/reader.py"
VIEW = f"{CORE}/schedulers/local/view.py"
PREFECT = "integrations/prefect"


class Mutant(NamedTuple):
    """One deliberate bug."""

    name: str
    file: str
    old: str
    new: str
    faults: tuple[str, ...] = ("nothing",)
    backend: str = "local_cwd"


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "what was prepared for a program is taken back though it runs",
        f"{CORE}/supervisor/attempt.py",
        "            undo.pop_all()\n        return self.attempt._replace(pid=pid)\n",
        "        return self.attempt._replace(pid=pid)\n",
    ),
    Mutant("the last lines of an attempt are not waited for", DRIVER, "self._take_rest(attempt)\n", "pass\n"),
    Mutant(
        "one pipe is drained before the other",
        LOOP,
        "        return [self._watches[number] for number, _ in found]",
        "        return [self._watches[number] for number, _ in sorted(found)]",
    ),
    Mutant(
        "a last line without a newline is dropped",
        RELAY,
        "        if self._open_line:\n            self.sink.add",
        "        if False:\n            self.sink.add",
    ),
    Mutant(
        "a line cut over two reads loses its beginning",
        RELAY,
        "            self._open_line.append(data[:cut])",
        "            self._open_line = [data[:cut]]",
    ),
    Mutant(
        "the streams are told apart wrongly",
        READER,
        '{timeline.STDOUT: "stdout", timeline.STDERR: "stderr"}',
        '{timeline.STDOUT: "stdout", timeline.STDERR: "stdout"}',
    ),
    Mutant(
        "lines come as another attempt's",
        READER,
        "return replica.role, replica.replica_id, entry.attempt, entry.time_us / 1e6",
        "return replica.role, replica.replica_id, max(0, entry.attempt - 1), entry.time_us / 1e6",
    ),
    Mutant(
        "lines come as another replica's",
        READER,
        "return replica.role, replica.replica_id, entry.attempt",
        "return replica.role, 0, entry.attempt",
    ),
    Mutant(
        "a cursor points one record back",
        FEED,
        "encode_cursor(self._record.incarnation, self._at)",
        "encode_cursor(self._record.incarnation, self._at if self.done else max(0, self._at - 32))",
    ),
    Mutant(
        "a cursor points one record ahead",
        FEED,
        "encode_cursor(self._record.incarnation, self._at)",
        "encode_cursor(self._record.incarnation, self._at if self.done else self._at + 32)",
    ),
    Mutant(
        "bytes that are no UTF-8 are left out",
        READER,
        'data.decode("utf-8", "replace")',
        'data.decode("utf-8", "ignore")',
    ),
    Mutant("carriage returns end a line", READER, 'text[:-1].split("\\n")', "text[:-1].splitlines()"),
    Mutant(
        "what a dead supervisor lost is not told",
        FEED,
        "gaps = self._gaps(state, at) if lost else []",
        "gaps = []",
        ("supervisor-killed",),
    ),
    Mutant(
        "one retry too few",
        MACHINE,
        "if fatal or replica.attempt >= replica.max_retries:",
        "if fatal or replica.attempt + 1 >= replica.max_retries:",
    ),
    Mutant(
        "one retry too many",
        MACHINE,
        "if fatal or replica.attempt >= replica.max_retries:",
        "if fatal or replica.attempt > replica.max_retries:",
    ),
    Mutant(
        "the gang is not started again with the one that failed",
        MACHINE,
        'if policy == "REPLICA":',
        "if policy:",
    ),
    Mutant(
        "a failure counts as success",
        MACHINE,
        "    good = event.exit_code == 0",
        "    good = event.exit_code is not None",
    ),
    Mutant(
        "the first result counts",
        MACHINE,
        "return state._replace(result=event.result), []",
        "return state._replace(result=state.result or event.result), []",
    ),
    Mutant(
        "a cancelled app failed",
        MACHINE,
        "return _end(state, state.outcome, event.time)",
        "return _end(state, FAILED, event.time)",
        ("cancel",),
    ),
    Mutant(
        "what ignores SIGTERM is never killed",
        MACHINE,
        "    return state, [Sweep(kill=True)]\n\n\ndef _swept_before",
        "    return state, []\n\n\ndef _swept_before",
        ("cancel",),
    ),
    Mutant(
        "what was left behind is not waited for",
        DRIVER,
        "if self._empty or has_only_strangers(os.getpid(), self._dir):",
        "if not self._running:",
    ),
    Mutant(
        "a signal is told as another",
        f"{CORE}/supervisor/signals.py",
        "return signal.Signals(number).name",
        'return "SIGKILL" if number == signal.SIGSEGV else signal.Signals(number).name',
    ),
    Mutant(
        "an exit code is told in seven bits",
        DRIVER,
        "os.WEXITSTATUS(status) if",
        "os.WEXITSTATUS(status) & 127 if",
    ),
    Mutant(
        "every other metric is dropped",
        DRIVER,
        '            data = dumps(report) + b"\\n"\n',
        '            if report["type"] == "metric":\n                continue\n'
        '            data = dumps(report) + b"\\n"\n',
    ),
    Mutant(
        "the lease is not kept",
        DRIVER,
        'self._timers.set("lease", lease_s,',
        'self._timers.set("lease", lease_s + 3600,',
        ("lease",),
    ),
    Mutant(
        "the deadline is not kept",
        DRIVER,
        'self._timers.set("timeout", timeout_s,',
        'self._timers.set("timeout", timeout_s + 3600,',
        ("deadline",),
    ),
    Mutant(
        "a second submit starts the app again",
        f"{CORE}/schedulers/local/launch.py",
        "        while not has_begun(record.directory):",
        "        env, null = {**os.environ, 'TORCHX_ATTEMPT': '0'}, subprocess.DEVNULL\n"
        "        subprocess.Popen(record.plan.replicas[0].argv, env=env, stdout=null, stderr=null)\n"
        "        while not has_begun(record.directory):",
        ("submit-twice",),
    ),
    Mutant(
        "another app under the same id is taken for the same",
        f"{CORE}/schedulers/local/scheduler.py",
        "        if difference:\n",
        "        if difference and not difference:\n",
        ("submit-another",),
    ),
    Mutant(
        "anybody may cancel an owned app",
        f"{CORE}/schedulers/ownership.py",
        "        yield owner_of(record) == token",
        "        yield True",
        ("cancel-by-owner",),
    ),
    Mutant(
        "delete takes what runs",
        f"{CORE}/schedulers/recorded.py",
        "        if not is_terminal(state):",
        "        if False:",
        ("delete-and-prune-too-early",),
    ),
    Mutant(
        "delete leaves the record aside",
        f"{CORE}/schedulers/recorded.py",
        "                remove_tree(path)",
        "                os.rename(path, self._app_dir(app_id) + '.old')",
    ),
    Mutant(
        "the reason of a cancel is not told",
        VIEW,
        "    return state.msg\n",
        '    return ""\n',
        ("cancel",),
    ),
    Mutant(
        "a record's labels are read from the answer to its creation, which has none after a restart",
        f"{CORE}/schedulers/docker/client.py",
        "labels_of(self.api.create_volume(name, labels=labels)) or self.volume_labels(name)",
        "labels_of(self.api.create_volume(name, labels=labels)) or {}",
        ("engine-restarted-in-submit",),
        "local_docker",
    ),
    Mutant(
        "Prefect's last lines are dropped on cancel",
        f"{PREFECT}/prefect_torchx/app_run.py",
        "yield from attachment.last_lines(LAST_LINES_S - (monotonic() - began))",
        "yield Pause(seconds=0.0)",
        ("cancelled",),
        "prefect",
    ),
    Mutant(
        "a cursor of the fake scheduler points one event back",
        f"{CORE}/testing/fake/feed.py",
        '"at": self._at})',
        '"at": max(0, self._at - 1)})',
        ("follower-killed",),
        "fake",
    ),
    Mutant(
        "one retry too many, seen by the fake scheduler",
        MACHINE,
        "if fatal or replica.attempt >= replica.max_retries:",
        "if fatal or replica.attempt > replica.max_retries:",
        ("nothing", "replica-killed"),
        "fake",
    ),
    Mutant(
        "the fake scheduler takes another app for the same",
        f"{CORE}/testing/fake/scheduler.py",
        "elif difference := request_differences(existing.record.asked, asked, self.run_opts()):",
        "elif difference := None:",
        ("submit-another",),
        "fake",
    ),
)


def product_with(mutant: Mutant, place: Path) -> Path:
    """Copy the product, change it, and return where the copy is.

    Raises:
        LookupError: The code to change is not there: the mutant must follow the product.
    """
    for name in (CORE, PREFECT, "tests/oracle", "tests/support"):
        shutil.copytree(REPOSITORY / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = place / mutant.file
    text = path.read_text()
    if mutant.old not in text:
        raise LookupError(f"{mutant.name}: {mutant.file} has no {mutant.old!r}")
    path.write_text(text.replace(mutant.old, mutant.new))
    return place


def hunt(mutant: Mutant, *, trials: int, seed: int) -> tuple[int, str]:
    """Run trials until the bug is found; return how many it took (0: not found) and what was told."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        place = product_with(mutant, Path(folder) / "product")
        command = [sys.executable, str(place / "tests/oracle/run.py"), "--first", "--seed", str(seed)]
        kind = "--engine" if mutant.backend in ENGINES else "--backend"
        command += [kind, mutant.backend, "--trials", str(trials), "--fault", *mutant.faults]
        command += ["--shrink", "0"]
        path = os.pathsep.join(str(place / name) for name in ("", PREFECT, "tests/support"))
        env = {**os.environ, "PYTHONPATH": path, "TMPDIR": folder}
        out = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        total = re.search(r"^all +(\d+)", out.stdout, re.MULTILINE)
        told = re.search(r"--seed \d+: (.*?) \(", out.stdout)
    if total is None:
        return 0, f"the oracle broke: {out.stderr[-300:]}"
    return (int(total[1]), told[1]) if told else (0, "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt all; returns 1 when one was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=25, help="per bug, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", nargs="*", default=["local_cwd", "local_docker", "fake", "prefect"])
    parser.add_argument("--only", default="", help="bugs whose name contains this")
    options = parser.parse_args(arguments)
    missed = 0
    chosen = [m for m in MUTANTS if m.backend in options.backend and options.only in m.name]
    for mutant in chosen:
        count, told = hunt(mutant, trials=options.trials, seed=options.seed)
        missed += not count
        verdict = f"caught as {told} within {count} trials" if count else f"NOT CAUGHT {told}"
        print(f"{mutant.name:62} {verdict}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
