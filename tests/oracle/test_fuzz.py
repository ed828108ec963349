"""Hostile input of every kind that people and other programs hand in: only our own errors, and an end."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from torchx_core import AppDef, AppStatus, Role
from torchx_core.config import read_config
from torchx_core.errors import TorchXError
from torchx_core.schedulers.slurm.commands import ask
from torchx_core.schedulers.slurm.job import parse_queue
from torchx_core.specs import macros, parse_app_handle, parse_mounts
from torchx_core.specs.structured_error import parse_structured_error
from torchx_core.testing import fake_runner

INPUTS = int(os.environ.get("ORACLE_FUZZ", "150"))
SEED = int(os.environ.get("ORACLE_SEED", "1"))

PIECES = (
    *(
        "",
        "\0",
        "\n",
        "\r\n",
        "\ud800",
        "\ufeff",
        "é漢🙂",
        "'",
        '"',
        "\\",
        "${",
        "$$",
        "${app_id}",
        "{{",
        "%s",
    ),
    *(
        "..",
        "/",
        "://",
        ",",
        ";",
        "=",
        "[",
        "]",
        "{",
        "}",
        "- ",
        ": ",
        "&a",
        "*a",
        "!!python/object:os.system",
    ),
    *("<<: *a", "null", "NaN", "-1", "1e999", "9" * 40, "0x", "true", "~", "\x1b]0;x\x07", "[]", "{}", "0"),
    *("A" * 5000, "[" * 3000, '{"a":' * 500),
)


def mutated(text: str, rng: random.Random) -> str:
    """Return the text with some of it cut, repeated, or replaced by what parsers dislike."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        piece = rng.choice((*PIECES, text[at:end], chr(rng.randrange(0xD7FF))))
        text = text[:at] + piece + (text[at:] if rng.random() < 0.6 else text[end:])
    return text[:20_000]


APP = """\
name: app
roles:
- name: trainer
  image: repo/image:1
  entrypoint: python
  args: [-m, train, "${replica_id}", "${app_id}"]
  env: {A: "1"}
  num_replicas: 2
  max_retries: 3
  retry_policy: ROLE
  resource: {cpu: 1, gpu: 0, memMB: 1024}
  port_map: {http: 80}
  mounts:
  - {type: bind, src_path: /a, dst_path: /b, read_only: true}
"""
CONFIG = "[cli:run]\ncomponent = dist.ddp\n[local_cwd]\ngrace_s = 3\n[component:dist.ddp]\nj = 1x2\n"
ERROR = json.dumps({"message": {"message": "boom", "extraInfo": {"timestamp": "1", "py_callstack": "x"}}})
STATUS = json.dumps(
    {"state": "FAILED", "msg": "m", "roles": [{"role": "r", "replicas": [{"id": 0, "state": "FAILED"}]}]}
)


def _config(text: str, folder: Path) -> None:
    path = folder / ".torchxconfig"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    read_config([str(folder)], {})


def _cursor(text: str, _folder: Path) -> None:
    runner = fake_runner()
    handle = runner.run(AppDef("a", [Role("r", "", entrypoint="fake", args=["print:x"])]), "fake")
    list(runner.follow(handle, text))


def _status(text: str, _folder: Path) -> None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # the caller's business
        return
    AppStatus.from_json(cast("dict[str, object]", document))


def _cfg(text: str, _folder: Path) -> None:
    fake_runner().cfg_from_str("fake", text)


def _macro(text: str, _folder: Path) -> None:
    values = macros.Values(img_root="", app_id="a", replica_id="0", rank0_env="R")
    values.apply(Role("r", "", entrypoint=text, args=[text], env={"A": text}))


def _submit(text: str, _folder: Path) -> None:
    app = AppDef("a", [Role("r", text, entrypoint="fake", args=[f"print:{text}"], env={"A": text})])
    runner = fake_runner()
    runner.wait(runner.run(app, "fake"), timeout_s=240)


def _queue(text: str, folder: Path) -> None:
    answer = folder / "answer"
    answer.write_bytes(text.encode("utf-8", "surrogatepass"))
    ask(["cat", str(answer)], parse_queue)


QUEUE = json.dumps(
    {
        "meta": {"Slurm": {"release": "22.05.8"}},
        "errors": [],
        "jobs": [
            {"job_id": 7, "job_state": "RUNNING", "comment": "c", "name": "n", "het_job_id": 0, "nodes": "n1"}
        ],
    }
)
TARGETS: dict[str, tuple[Callable[[str, Path], object], str]] = {
    "handle": (lambda text, _: parse_app_handle(text), "local_cwd://session/app-1"),
    "cfg": (_cfg, "grace_s=3,log_mode=exact,prepend_cwd=true"),
    "mounts": (
        lambda text, _: parse_mounts(text.split(",")),
        "type=bind,src=/a,dst=/b,readonly,type=volume,src=v,dst=/c",
    ),
    "yaml": (lambda text, _: AppDef.from_yaml(text), APP),
    "json": (lambda text, _: AppDef.from_json(text), AppDef.from_yaml(APP).to_json()),
    "config": (_config, CONFIG),
    "macro": (_macro, "${app_id}-$${x}-${replica_id}"),
    "cursor": (_cursor, '{"app": "x", "at": 3}'),
    "status": (_status, STATUS),
    "error": (lambda text, _: parse_structured_error(text), ERROR),
    "app": (_submit, "hello world"),
    "queue": (_queue, QUEUE),
}


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_only_our_own_errors(target: str, tmp_path: Path) -> None:
    """Whatever the input, what comes is an answer or an error of ours."""
    act, seed = TARGETS[target]
    rng = random.Random(f"{target} {SEED}")
    for number in range(INPUTS):
        text = mutated(seed, rng)
        try:
            with suppress(TorchXError):
                act(text, tmp_path)
        except Exception as err:
            raise AssertionError(f"input {number} of {target}, seed {SEED}: {text[:300]!r}") from err
