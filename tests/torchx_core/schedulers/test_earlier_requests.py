"""A request that an earlier release wrote down is the same request today, and any other is another one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from earlier_records import WORDS, WORDS_OF_DOCKER, asked_by_docker, asked_locally

from torchx_core import get_runner
from torchx_core.schedulers.difference import comparable_request as asked_here
from torchx_core.schedulers.difference import request_differences
from torchx_core.schedulers.docker import DockerRequest
from torchx_core.schedulers.docker.answers import Json
from torchx_core.schedulers.docker.options import FORMER_MEANINGS, docker_run_opts
from torchx_core.schedulers.docker.request import comparable_request, remasked
from torchx_core.schedulers.local.options import local_run_opts
from torchx_core.specs import AppDef, CfgVal, runopts


def differences(tmp_path: Path, words: list[str], cfg: Mapping[str, CfgVal]) -> list[str]:
    """Return how that request differs from the one that the release before wrote on an engine."""
    with get_runner("s", state_dir=str(tmp_path)) as runner:
        info = runner.dryrun_component("utils.sh", words, "local_docker", dict(cfg), app_id="one")
    request = info.request
    assert isinstance(request, DockerRequest)
    written = asked_by_docker("s", request.app.roles[0].image)
    stored = remasked(AppDef.from_dict(cast("Json", written["app"])), written, "5a17")
    asked = comparable_request(request.app, request.cfg, "5a17")
    return request_differences(stored, asked, docker_run_opts(), FORMER_MEANINGS)


@pytest.mark.parametrize(
    "cfg",
    [{}, {"host_ip": "0.0.0.0"}, {"init": True}],  # noqa: S104  # as the engine took it
    ids=["plain", "host_ip", "init"],
)
def test_an_earlier_request_to_docker_is_the_same(tmp_path: Path, cfg: Mapping[str, CfgVal]) -> None:
    """Options it lacks, a password it shows, a home directory, the component's former defaults: all alike."""
    assert differences(tmp_path, WORDS_OF_DOCKER, cfg) == []


@pytest.mark.parametrize(
    ("words", "cfg", "path"),
    [
        (["sesame", "other"], {}, "secrets.sh.env.DATABASE_URL"),
        (["hf_x", "hf_y"], {}, "secrets.sh.env.HF_TOKEN"),
        (["~/data", "~/other"], {}, "src_path"),
        ([], {"host_ip": "10.0.0.1"}, "cfg.host_ip"),
        ([], {"init": False}, "cfg.init"),
        (["--env", "--memMB=2048 --env"], {}, "memMB"),
    ],
)
def test_another_request_to_docker_still_differs(
    tmp_path: Path, words: list[str], cfg: Mapping[str, CfgVal], path: str
) -> None:
    """A password, a mount, an option or a resource that is another one now makes another request."""
    text = "\n".join(WORDS_OF_DOCKER)
    if words:
        text = text.replace(words[0], words[1].replace(" ", "\n"))
    (found,) = differences(tmp_path, text.split("\n"), cfg)
    assert path in found
    assert "sesame" not in found


def test_former_defaults_count_only_where_an_earlier_release_wrote(tmp_path: Path) -> None:
    """Who asks for 1024 MB today, and for none tomorrow, asks for something else."""
    with get_runner("s", state_dir=str(tmp_path)) as runner:
        words = ["--memMB", "1024", *WORDS]
        limited, unlimited = (
            asked_here(info.app, dict(info.cfg))
            for info in (
                runner.dryrun_component("utils.sh", each, "local_cwd", {}, app_id="one")
                for each in (words, WORDS)
            )
            if info.app
        )
    opts = local_run_opts()
    assert request_differences(asked_locally("s"), unlimited, opts) == []
    assert request_differences(limited, unlimited, opts) == ["app.roles[0].resource.memMB: 1024 -> -1"]


def test_an_option_that_is_new_counts_as_its_default() -> None:
    """Whatever scheduler it is of, and whatever release wrote the request."""
    opts = runopts()
    opts.add("old", type_=int, help="was there before", default=1)
    opts.add("new", type_=int, help="was not", default=5)
    opts.add("open", type_=str, help="was not, and has no default")
    stored: dict[str, object] = {"format": 2, "app": {}, "cfg": {"old": 1}}
    same: dict[str, object] = {"format": 2, "app": {}, "cfg": {"old": 1, "new": 5, "open": None}}
    other: dict[str, object] = {"format": 2, "app": {}, "cfg": {"old": 1, "new": 6, "open": None}}
    assert request_differences(stored, same, opts) == []
    assert request_differences(stored, other, opts) == ["cfg.new: absent -> 6"]
