"""What is taken from an app's host for a while: room on its disk, processes, memory."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from fault import LOCAL, OURS, at_some_moment, cancel_as, disturbs, may_be_unstarted, submits
from scenarios import Attempt
from storm import NEIGHBOUR
from trial import Trial

from torchx_core.errors import TorchXError
from torchx_core.testing import wait_until

MEGABYTE = 1 << 20
DISK_BYTES = 32 * MEGABYTE
INODES = 400
NO_ROOM = os.strerror(errno.ENOSPC)
NO_PROCESS = os.strerror(errno.EAGAIN)
PIDS = Path("/sys/fs/cgroup/pids")
"""Where a control group that counts processes can be made."""
NOWHERE: frozenset[str] = frozenset()
ON_SMALL_DISKS = LOCAL if os.geteuid() == 0 else NOWHERE
AMONG_FEW = LOCAL if os.access(PIDS / "cgroup.procs", os.W_OK) else NOWHERE


class SmallDisk:
    """A file system of its own for the records of a trial."""

    def __init__(self, trial: Trial) -> None:
        """Know where it is, or will be."""
        self.path = trial.root / "state"

    @classmethod
    def mounted(cls, trial: Trial) -> SmallDisk:
        """Mount it until the trial's end, which only root may."""
        disk = cls(trial)
        disk.path.mkdir()
        options = f"size={DISK_BYTES},nr_inodes={INODES}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(disk.path)], check=True)
        trial.at_end(disk._unmount)
        return disk

    def _unmount(self) -> None:
        """Unmount it, and leave a copy of what was there in its place for whoever asks what went wrong."""
        copy = self.path.with_name("copy")
        subprocess.run(["cp", "-a", str(self.path), str(copy)], check=True)
        subprocess.run(["umount", "-l", str(self.path)], check=True)
        self.path.rmdir()
        copy.rename(self.path)

    def fill(self, leave: int) -> None:
        """Use up its room, but for so many bytes."""
        with (self.path / "filler").open("wb", buffering=0) as file:
            _until_full(lambda: file.write(bytes(MEGABYTE)))
            file.truncate(max(0, file.tell() - leave))

    def use_up_inodes(self, leave: int) -> None:
        """Use up its files, but for so many."""
        crowd = self.path / "crowd"
        crowd.mkdir()
        names = count()
        _until_full(lambda: os.close(os.open(crowd / str(next(names)), os.O_CREAT)))
        for path in list(crowd.iterdir())[:leave]:
            path.unlink()

    def make_room(self) -> None:
        """Give back what was used up."""
        subprocess.run(["rm", "-rf", str(self.path / "filler"), str(self.path / "crowd")], check=True)


def _until_full(act: Callable[[], object]) -> None:
    try:
        while True:
            act()
    except OSError as err:
        if err.errno != errno.ENOSPC:
            raise


def _gated(trial: Trial, *names: str) -> None:
    """Have each attempt wait at these gates, somewhere within its script, and print no line that is cut."""
    gated: dict[str, list[Attempt]] = {}
    for who, attempts in trial.scenario.script.items():
        for attempt in attempts:
            steps = [[70_000 if word == MEGABYTE else word for word in step] for step in attempt]
            places = sorted(trial.rng.randrange(len(steps)) for _ in names)
            for place, name in reversed(list(zip(places, names, strict=True))):
                steps.insert(place, ["gate", name])
            gated.setdefault(who, []).append(steps)
    trial.set_script(gated)


def _open(trial: Trial, gate: str) -> None:
    (trial.truth_dir / gate).touch()


def _submit_to_small_disk(trial: Trial) -> None:
    _gated(trial, "full", "room")
    SmallDisk.mounted(trial)
    trial.submit()


@disturbs(ON_SMALL_DISKS, holds=False, submit=_submit_to_small_disk)
def disk_full(trial: Trial) -> None:
    """Fill the disk of the records while the app prints, perhaps cancel, and make room again."""
    _without_room(trial, lambda disk: disk.fill(trial.rng.choice((0, 0, 4096, 200_000))))


@disturbs(ON_SMALL_DISKS, holds=False, submit=_submit_to_small_disk)
def inodes_gone(trial: Trial) -> None:
    """Use up the files of the records' disk likewise; an attempt that cannot have its own fails."""
    trial.excuse("FAILED", NO_ROOM)
    _without_room(trial, lambda disk: disk.use_up_inodes(trial.rng.choice((0, 0, 1, 3, 10))))


def _without_room(trial: Trial, use_up: Callable[[SmallDisk], None]) -> None:
    """Let the app print without room, ask for this and that, make room, and let it print the rest."""
    trial.promises.may_drop = True
    disk = SmallDisk(trial)
    at_some_moment(trial)
    use_up(disk)
    _open(trial, "full")
    trial.pause(1.0)
    trial.call("list", lambda: trial.runner.list(trial.backend.scheduler))
    trial.call("prune", lambda: trial.runner.prune(trial.backend.scheduler, max_age_s=1e9))
    trial.call("take over", lambda: trial.runner.take_over(trial.handle, "me"), TorchXError)
    if trial.rng.random() < 0.3:
        cancel_as(trial, "cancelled")  # no other reason may find room
    trial.pause(1.0)
    disk.make_room()
    _open(trial, "room")


@submits(ON_SMALL_DISKS)
def submit_to_full_disk(trial: Trial) -> None:
    """Submit to a disk without room, which may fail with a clear error, and again when there is some."""
    trial.promises.may_drop = True
    disk = SmallDisk.mounted(trial)
    if trial.rng.random() < 0.5:
        disk.fill(trial.rng.randrange(60_000))
    else:
        disk.use_up_inodes(trial.rng.randrange(16))
    trial.finish_submit(trial.start_submit(), may_fail=True)
    trial.pause(0.5)
    disk.make_room()
    trial.submit()
    may_be_unstarted(trial)
    trial.excuse("FAILED", NO_ROOM)


@submits(AMONG_FEW)
def few_processes(trial: Trial) -> None:
    """Submit where hardly a process can be started, which may fail with a clear error, and then elsewhere."""
    script = trial.scenario.script
    for attempts in script.values():
        attempts[:] = [[step for step in attempt if step[0] != "child"] for attempt in attempts]
    trial.set_script(script)  # our witness cannot do without processes either
    group = PIDS / trial.root.name
    group.mkdir()
    trial.at_end(lambda: end_group(group))
    (group / "pids.max").write_text(str(trial.rng.randrange(1, 9)))
    trial.finish_submit(trial.start_submit(group=str(group)), may_fail=True)
    trial.excuse("FAILED", NO_PROCESS)
    may_be_unstarted(trial)
    if trial.rng.random() < 0.5:
        trial.pause(1.0)
        (group / "pids.max").write_text("max")
    trial.submit()


def end_group(group: Path) -> None:
    """Remove it, with the zygote that a submitter in it may have left behind."""

    def is_removed() -> bool:
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with suppress(OSError):
            group.rmdir()
        return not group.exists()

    wait_until(is_removed, 60.0)


@submits(LOCAL)
def little_memory(trial: Trial) -> None:
    """Submit with hardly any memory to spare, which may fail for want of it, and then with enough."""
    short = trial.start_submit(memory=trial.rng.randrange(0, 16 * MEGABYTE, 4096))
    ways = ("MemoryError", "ImportError", "OSError", "SystemError")  # in which Python says so
    trial.finish_submit(short, may_fail=True, excused=ways)
    trial.submit()
    may_be_unstarted(trial)


def _submit_what_lasts(trial: Trial) -> None:
    """Submit an app that does not end by itself: then it may be pruned."""
    lasting = {
        who: [
            [*(step for step in attempt if step[0] not in {"exit", "die"}), ["hold"]] for attempt in attempts
        ]
        for who, attempts in trial.scenario.script.items()
    }
    trial.set_script(lasting)
    trial.submit()


@disturbs(OURS, submit=_submit_what_lasts)
def neighbours(trial: Trial) -> None:
    """Submit, list, prune and delete neighbours by several processes at once; nobody ends a running one."""
    trial.started()
    turns = "2" if trial.backend.is_small else "6"
    words = ("storm", str(trial.request), str(trial.truth_dir))
    for process in [trial.actor(*words, str(number), turns) for number in range(3)]:
        out, err = trial.last_words(process, "storm") or ("[]", "")
        for name, document in json.loads(
            out or json.dumps([("storm", {"error": "died", "text": err[-500:]})])
        ):
            trial.note(name, document["error"], ours=False, detail=document["text"])
    for path in trial.truth_dir.glob(f"*{NEIGHBOUR}"):
        trial.eventually(lambda path=path: _has_ended(path), f"end of {path.name}")  # type: ignore[misc]
    cancel_as(trial, "enough")


def _has_ended(path: Path) -> bool:
    """Return whether a neighbour ran to its end: once, or perhaps again if several submitted it."""
    told = Counter(path.read_text().split())
    return told["began"] == told["ended"] and (told["began"] == 1 or path.name.startswith("shared"))
