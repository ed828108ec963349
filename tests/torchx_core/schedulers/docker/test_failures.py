"""Why an app failed, on a real engine: a plain program, and ranks that a torchrun starts in a container."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from docker_apps import end, new_runner
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE

from torchx_core.components import dist
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppStatus, Resource, Role

TORCHRUN = f"""#!{sys.base_prefix}/bin/python3
import os, subprocess, sys
words = sys.argv[sys.argv.index("--no-python") + 1 :]
env = [{{**os.environ, "RANK": str(k), "TORCHELASTIC_ERROR_FILE": f"/tmp/{{k}}.json"}} for k in (0, 1)]
ranks = [subprocess.Popen(words, env=each) for each in env]
sys.exit(int(any([rank.wait() for rank in ranks])))
"""
"""Does what torchrun does with its ranks; the real one needs PyTorch, which this image has not."""
INSTALL = """
mkdir -p /tmp/bin; printf %s "$$0" >/tmp/bin/torchrun; chmod +x /tmp/bin/torchrun
PATH=/tmp/bin:$$PATH exec "$$@"
"""
TRAIN = """
import os, time
while os.environ["RANK"] == "0" and not os.path.exists("/tmp/1.json"):
    time.sleep(0.01)
raise ValueError("of rank " + os.environ["RANK"])
"""


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """A runner whose apps go with the test."""
    with new_runner(engine.url) as runner:
        yield runner


def ended(runner: Runner, role: Role, timeout_s: float | None = None) -> AppStatus:
    """Run the role alone to its end."""
    return end(runner, runner.run(AppDef("app", [role]), "local_docker", {"timeout_s": timeout_s}))


def python(text: str, **fields: object) -> Role:
    """Return a role that runs the program."""
    args = ["-c", text.replace("$", "$$")]
    return Role(name="job", image=PYTHON_IMAGE, entrypoint="python3", args=args, **fields)  # type: ignore[arg-type]  # a test's own


def test_a_plain_program_is_told_by_its_exception(runner: Runner) -> None:
    """With the line, from the container's own log; all of it is there after the container has ended."""
    text = "print('step 1', flush=True)\ndef load():\n    raise KeyError('batch')\nload()"
    headline, *rest = ended(runner, python(text)).failure_summary().split("\n")
    assert headline.startswith("replica job/0 failed with exit code 1 (on app-")
    assert headline.endswith("): KeyError: 'batch' (<string>:3, in load); app is FAILED")
    assert rest[0] == "  error: Traceback (most recent call last):"
    assert rest[-2:] == ["  last lines of job/0:", "    step 1"]


def test_memory_leads_where_it_was_short(runner: Runner) -> None:
    """SIGKILL alone would send people the wrong way."""
    role = python("x = b'x' * 200_000_000", resource=Resource(cpu=-1, gpu=-1, memMB=32))
    headline = ended(runner, role).failure_summary().split("\n")[0]
    assert headline.startswith("replica job/0 was killed by SIGKILL (")
    assert headline.endswith("): out of memory: peak 32 MB of 32 MB allowed by memMB; app is FAILED")


def test_the_first_rank_that_failed_leads(runner: Runner) -> None:
    """Its program wrote the error file on the app's volume, through an image that knows nothing of us."""
    role = dist.torchrun(script="/tmp/train.py", j="1x2", image=PYTHON_IMAGE).roles[0]
    install = f"printf %s '{TRAIN}' >/tmp/train.py; {INSTALL}"
    role.args = ["-c", install, TORCHRUN.replace("$", "$$"), role.entrypoint, *role.args]
    role.entrypoint = "sh"
    status = ended(runner, role)
    headline, *rest = status.failure_summary().split("\n")
    assert headline.startswith("rank 1 of replica train/0 failed with exit code 1 ("), (
        status.failure_summary()
    )
    assert headline.endswith("): ValueError: of rank 1 (/tmp/train.py:5); app is FAILED")
    assert rest[0] == "  error: Traceback (most recent call last):"
    assert any("of rank 0" in line for line in rest)


@pytest.mark.parametrize(("timeout_s", "code"), [(None, 8), (500.0, 7)])
def test_a_program_knows_its_deadline(runner: Runner, timeout_s: float | None, code: int) -> None:
    """So that a rank can print where it is before it is ended there."""
    text = "import os, time\nleft_s = float(os.environ.get('TORCHX_DEADLINE', 'inf')) - time.time()\n"
    status = ended(runner, python(f"{text}raise SystemExit(7 if 0 < left_s <= 501 else 8)"), timeout_s)
    assert status.roles[0].replicas[0].exit_code == code
