"""No line is lost, none is repeated, none is torn."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from local_apps import app_of, lines_of

from torchx_core import Runner
from torchx_core.schedulers import LogLine, Stream

NOISY = r"""
import os, sys
k = int(sys.argv[1])
out = os.fdopen(1, "wb", buffering=0)
for i in range(5000):
    out.write(b"%d:%d\n" % (k, i))
if k == 0: out.write(b"bad \xff\xfe utf-8\n")
if k == 1: out.write(b"a\0b\n")
if k == 2: out.write(b"10%\r50%\r100%\n")
if k == 3: out.write(b"x" * 10_000_000 + b"\n")
if k == 4: out.write(b"no newline")
"""


def test_32_replicas_by_5000_lines(runner: Runner) -> None:
    """160,000 lines of 32 replicas followed at once arrive whole, once, and in order; odd bytes survive."""
    app = app_of(sys.executable, "-c", NOISY, "${replica_id}", num_replicas=32)
    handle = runner.run(app, "local_cwd")
    seen: dict[int, list[LogLine]] = defaultdict(list)
    for line in lines_of(runner.follow(handle)):
        seen[line.replica].append(line)

    assert sorted(seen) == list(range(32))
    for k, lines in seen.items():
        assert [line.text for line in lines[:5000]] == [f"{k}:{i}" for i in range(5000)]
    odd = {k: lines[5000:] for k, lines in seen.items()}
    assert [line.text for line in odd[0]] == ["bad \ufffd\ufffd utf-8"]
    assert [line.text for line in odd[1]] == ["a\0b"]
    assert [line.text for line in odd[2]] == ["10%\r50%\r100%"]
    assert "".join(line.text for line in odd[3]) == "x" * 10_000_000
    assert [line.eol for line in odd[3]] == [False] * (len(odd[3]) - 1) + [True]
    assert max(len(line.text) for line in odd[3]) <= 1 << 20
    assert [(line.text, line.eol) for line in odd[4]] == [("no newline", False)]
    assert all(odd[k] == [] for k in range(5, 32))


@pytest.mark.parametrize("mode", ["exact", "pipe"])
def test_streams_never_meet_within_a_line(runner: Runner, mode: str) -> None:
    """Pieces of lines written in turn to both streams come out as whole lines of each."""
    code = """
import os
for i in range(500):
    os.write(1, b"out"); os.write(2, b"err"); os.write(1, b" %d\\n" % i); os.write(2, b" %d\\n" % i)
"""
    handle = runner.run(app_of(sys.executable, "-c", code), "local_cwd", {"log_mode": mode})
    lines = lines_of(runner.follow(handle))
    assert [line.text for line in lines if line.stream == "stdout"] == [f"out {i}" for i in range(500)]
    assert [line.text for line in lines if line.stream == "stderr"] == [f"err {i}" for i in range(500)]
    log_dir = Path(runner.status(handle).roles[0].replicas[0].log_dir)  # type: ignore[union-attr]
    combined = (log_dir / "combined.log").read_text().splitlines()
    assert Counter(line[:4] for line in combined) == {"out ": 500, "err ": 500}


def test_exact_keeps_the_order_between_streams(runner: Runner) -> None:
    """Lines written in turn to stdout and stderr arrive in turn."""
    code = "import os\nfor i in range(3000): os.write(1 + i % 2, b'%d\\n' % i)"
    handle = runner.run(app_of(sys.executable, "-c", code), "local_cwd")
    assert [line.text for line in lines_of(runner.follow(handle))] == [str(i) for i in range(3000)]


def test_exact_keeps_the_order_of_first_words(runner: Runner) -> None:
    """Replicas that are started together print to stderr, then to stdout, while others are prepared."""
    app = app_of("sh", "-c", "echo first >&2; echo second", num_replicas=32)
    seen: dict[int, list[str]] = defaultdict(list)
    for line in lines_of(runner.follow(runner.run(app, "local_cwd"))):
        seen[line.replica].append(line.text)
    assert seen == {replica: ["first", "second"] for replica in range(32)}


def test_exact_keeps_the_order_of_last_words(runner: Runner, tmp_path: Path) -> None:
    """Replicas that print to stderr, then to stdout, and exit together are each shown in this order."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    # A replica waits until nobody has the gate open for writing: then all go on at once.
    script = f"echo up; read line <{gate}; echo first >&2; echo second"
    keeper = os.open(gate, os.O_RDWR)
    handle = runner.run(app_of("sh", "-c", script, num_replicas=64), "local_cwd")
    shown: dict[int, list[str]] = defaultdict(list)
    for batch in runner.follow(handle):
        for line in batch.lines():
            shown[line.replica].append(line.text)
        if keeper >= 0 and len(shown) == 64:
            os.close(keeper)
            keeper = -1
    assert shown == {k: ["up", "first", "second"] for k in range(64)}


def test_files_hold_what_was_printed_byte_for_byte(runner: Runner) -> None:
    """stdout.log and stderr.log are the bytes of the streams."""
    code = r"import os; os.write(1, bytes(range(256))); os.write(2, b'\xff\n\r\0'); os.write(1, b'end')"
    handle = runner.run(app_of(sys.executable, "-c", code), "local_cwd")
    status = runner.wait(handle)
    assert status
    log_dir = Path(status.roles[0].replicas[0].log_dir)
    assert (log_dir / "stdout.log").read_bytes() == bytes(range(256)) + b"end"
    assert (log_dir / "stderr.log").read_bytes() == b"\xff\n\r\0"
    assert (log_dir.parent / "current").resolve() == log_dir.resolve()


def test_a_very_long_line_is_not_cut_within_a_character(runner: Runner) -> None:
    """Three-byte characters survive the cut of a long line."""
    code = "import sys; sys.stdout.write('x' + '\u20ac' * 1_000_000)"
    handle = runner.run(app_of(sys.executable, "-c", code, env={"PYTHONIOENCODING": "utf-8"}), "local_cwd")
    text = "".join(line.text for line in lines_of(runner.follow(handle)))
    assert text == "x" + "\u20ac" * 1_000_000


def test_resume_at_every_cursor_gives_exactly_the_rest(runner: Runner) -> None:
    """From any batch's cursor a new follower gets what came after that batch, and nothing else."""
    app = app_of("sh", "-c", "seq 1 50; echo e >&2; seq 51 60", num_replicas=3)
    handle = runner.run(app, "local_cwd")
    batches = list(runner.follow(handle))
    for i, batch in enumerate(batches):
        rest = [event for later in batches[i + 1 :] for event in later.events]
        again = [event for b in runner.follow(handle, batch.cursor) for event in b.events]
        assert again == rest


def test_a_grandchild_that_holds_the_pipe_does_not_delay_the_end(runner: Runner) -> None:
    """The app ends with its program, though a background child has its output open."""
    handle = runner.run(app_of("sh", "-c", "sleep 600 & echo done"), "local_cwd")
    status = runner.wait(handle, timeout_s=240)
    assert status
    assert status.is_terminal()


def test_a_program_that_enlarges_its_pipe_is_still_seen_live(runner: Runner) -> None:
    """Lines arrive while such a program runs, not only when it ends."""
    code = """
import fcntl, os, time
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 16)
for i in range(200): os.write(1, b"%d\\n" % i)
time.sleep(600)
"""
    handle = runner.run(app_of(sys.executable, "-c", code), "local_cwd")
    seen: list[str] = []
    for batch in runner.follow(handle, tick_s=60):
        assert batch.events, f"only {len(seen)} lines after 60 s"
        seen += [line.text for line in batch.lines()]
        if len(seen) == 200:
            break
    assert seen == [str(i) for i in range(200)]


def test_streams_and_roles_can_be_chosen(runner: Runner) -> None:
    """Follow yields only what was asked for."""
    handle = runner.run(app_of("sh", "-c", "echo out; echo err >&2"), "local_cwd")
    assert [x.text for x in lines_of(runner.follow(handle, streams=Stream.STDERR))] == ["err"]
    assert [x.text for x in lines_of(runner.follow(handle, streams=Stream.STDOUT))] == ["out"]
    assert lines_of(runner.follow(handle, logs=False)) == []


def test_following_works_without_inotify(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the kernel gives no inotify instance the follower looks again by itself."""

    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("torchx_core.schedulers.local.inotify.Inotify", refuse)
    handle = runner.run(app_of("sh", "-c", "echo a; sleep 0.2; echo b"), "local_cwd")
    assert [line.text for line in lines_of(runner.follow(handle))] == ["a", "b"]
