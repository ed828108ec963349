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
from torchx_core.schedulers.docker.request import comparable_request, remasked
from torchx_core.schedulers.earlier_requests import in_former_words
from torchx_core.schedulers.options.docker import FORMER_MEANINGS, docker_run_opts
from torchx_core.schedulers.options.local import local_run_opts
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


MEETING_SCRIPTS = [
    """\
app=$$1 replica=$$2 port=$$3 conf=$$4
shift 4
host=$${${rank0_env}:-localhost}
if [ "$$host" = localhost ] && [ "$$port" = 29500 ]; then
    sum=$$(printf %s "$$app $$TORCHX_ATTEMPT" | cksum)
    port=$$((20000 + $${sum%% *} % 10000))
fi
exec torchrun --rdzv_endpoint "$$host:$$port" --rdzv_conf "is_host=$$((replica == 0))$$conf" "$$@"
""",
    """\
app=$$1 replica=$$2 port=$$3 conf=$$4
shift 4
host=$${${rank0_env}:-localhost}
if [ "$$host" = localhost ] && [ "$$port" = 29500 ]; then
    port=$$TORCHX_RANK0_PORT
    if [ -z "$$port" ]; then
        sum=$$(printf %s "$$app $$TORCHX_ATTEMPT" | cksum)
        port=$$((20000 + $${sum%% *} % 10000))
    fi
fi
exec torchrun --rdzv_endpoint "$$host:$$port" --rdzv_conf "is_host=$$((replica == 0))$$conf" "$$@"
""",
]
"""What several nodes of `dist.torchrun` ran before a port was held for them, and before ranks told why they
failed."""
OPTIONS = ["--nproc_per_node", "1", "--tee", "3", "--role", ""]


def asked_for(tmp_path: Path, nodes: str, *words: str) -> dict[str, object]:
    """Return the request of such an app, as it is written down today."""
    with get_runner("s", state_dir=str(tmp_path)) as runner:
        given = ["-j", f"{nodes}x1", "--script", "train.py", *words]
        info = runner.dryrun_component("dist.torchrun", given, "local_cwd", {}, app_id="one")
    assert info.app
    return asked_here(info.app, dict(info.cfg))


def with_command(request: dict[str, object], entrypoint: str, *args: str) -> dict[str, object]:
    """Return the request with another command."""
    app = cast("dict[str, object]", request["app"])
    [role] = cast("list[dict[str, object]]", app["roles"])
    return {**request, "app": {**app, "roles": [{**role, "entrypoint": entrypoint, "args": list(args)}]}}


@pytest.mark.parametrize("script", MEETING_SCRIPTS)
def test_the_former_script_of_several_nodes_is_the_same_request(tmp_path: Path, script: str) -> None:
    """A retry with this release attaches to what the ones before submitted; another script does not."""
    asked, opts = asked_for(tmp_path, "2", "--", "--", "$x"), local_run_opts()
    words = ["torchrun", "${app_id}", "${replica_id}", "29500", "", "--rdzv_backend", "c10d"]
    words += ["--rdzv_id", "${app_id}", "--nnodes", "2", *OPTIONS, "train.py", "--", "$x"]
    assert request_differences(with_command(asked, "sh", "-c", script, *words), asked, opts) == []
    other = script.replace("29500", "29501")
    assert request_differences(with_command(asked, "sh", "-c", other, *words), asked, opts)
    assert request_differences(with_command(asked, "sh", "-c", script, *words, "--more"), asked, opts)
    assert request_differences(with_command(asked, "bash", "-c", script, *words), asked, opts)


def test_the_former_command_of_one_node_is_the_same_request(tmp_path: Path) -> None:
    """Torchrun itself, without a shell; with other words it is another one."""
    asked, opts = asked_for(tmp_path, "1", "--", "--lr", "1"), local_run_opts()
    words = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv_id", "${app_id}"]
    words += ["--nnodes", "1", *OPTIONS, "train.py", "--lr"]
    assert request_differences(with_command(asked, "torchrun", *words, "1"), asked, opts) == []
    assert request_differences(with_command(asked, "torchrun", *words, "2"), asked, opts)
    assert request_differences(with_command(asked, "sh", *words, "1"), asked, opts)


@pytest.mark.parametrize("args", [[], ["-c"], ["-c", 1], "-c", ["-c", 'export TORCHX_RANK_PROGRAM="$$1"\n']])
def test_a_damaged_command_is_compared_as_it_is(tmp_path: Path, args: object) -> None:
    """On either side, without a crash."""
    asked = asked_for(tmp_path, "1")
    damaged = with_command(asked, "sh")
    [role] = cast("list[dict[str, object]]", cast("Json", damaged["app"])["roles"])
    role["args"] = args
    for pair in ((damaged, asked), (asked, damaged)):
        assert request_differences(*pair, local_run_opts())


@pytest.mark.parametrize("nodes", ["1", "2"])
def test_in_former_words_it_is_what_was_written_then(tmp_path: Path, nodes: str) -> None:
    """So that an app id which follows from a request is the one that the release before gave."""
    asked = asked_for(tmp_path, nodes, "--", "--lr", "1")
    words = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]
    command = ["torchrun"]
    if nodes == "2":
        words = words[:2]
        command = ["sh", "-c", MEETING_SCRIPTS[-1], "torchrun", "${app_id}", "${replica_id}", "29500", ""]
    words += ["--rdzv_id", "${app_id}", "--nnodes", nodes, *OPTIONS, "train.py", "--lr", "1"]
    then = with_command(asked, *command, *words)["app"]
    assert in_former_words(cast("Json", asked["app"])) == then
    assert in_former_words(cast("Json", then)) == then
