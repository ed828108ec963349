"""The built-in components make the apps that TorchX's make, but for what TorchX does badly."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import cast

import pytest

from torchx_core.components import dist, find_component, list_components, utils
from torchx_core.errors import InvalidInputError
from torchx_core.specs import Role, macros

MAIN = ["--script", "dir/train.py"]
ASKS = {"-h", "--h", "--cpu"}
"""Words after which a component asks for a resource."""
CASES = {
    "dist.torchrun": [
        MAIN,
        ["-m", "pkg.train", "-j", "2x4", "--name", "exp/", "--", "a b", "--lr=1"],
        [*MAIN, "-j", "1:2x4", "--name", "exp/run", "--env", "LOGLEVEL=INFO,A=b", "--debug", "true"],
        [*MAIN, "-h", "aws_p4d.24xlarge", "-j", "2", "--metadata", "a=b", "--max_retries", "3"],
        [*MAIN, "--name", "/run", "--mounts", "type=bind,src=/a,dst=/b,readonly", "--rdzv_port", "1234"],
        [*MAIN, "--name", "run", "--cpu", "3", "--gpu", "1", "--memMB", "500"],
    ],
    "dist.ddp": [MAIN, [*MAIN, "-j", "2"], [*MAIN, "-h", "aws_p4d.24xlarge", "-j", "2"]],
    "dist.spmd": [MAIN, [*MAIN, "-h", "aws_p4d.24xlarge", "-j", "2"]],
    "utils.echo": [[], ["--msg", "hi", "--num_replicas", "3"]],
    "utils.touch": [["--file", "x"]],
    "utils.sh": [["ls", "-l"], ["--env", "A=b", "--max_retries", "2", "--h", "gpu.small", "ls"]],
    "utils.python": [["-m", "pkg", "--", "a"], ["-c", "print(1)"], ["--script", "x.py", "--name", "n"]],
    "utils.binary": [["--entrypoint", "ls", "--", "-l"]],
    "utils.copy": [["--src", "a", "--dst", "b"]],
    "utils.booth": [["--x1", "1", "--x2", "2"]],
}


@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name, cases in CASES.items() for words in cases]
)
@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning", "ignore:In `-j:UserWarning")
def test_the_app_is_torchx_s(name: str, words: list[str]) -> None:
    """How the program is started, and in which image, is our own business and left out."""
    pytest.importorskip("torchx")
    ours = find_component(name).build(words).to_dict()
    theirs = find_component(f"torchx.components.{name}").build(words).to_dict()
    for app in (ours, theirs):
        for role in cast("list[dict[str, object]]", app["roles"]):
            if not ASKS & {*words} and name != "dist.spmd":
                role.pop("resource")  # theirs asks for figures that nobody wrote
            assert {role.pop(field) for field in ("entrypoint", "image")}
            assert role.pop("args")
            cast("dict[str, str]", role["env"]).pop(
                "LOGLEVEL", None
            )  # theirs is the submitter's, or a constant
    assert ours == theirs


@pytest.mark.parametrize("name", CASES)
def test_the_signature_is_torchx_s(name: str) -> None:
    """Arguments, order, kinds, types and defaults; but for the default image, cores and memory."""
    pytest.importorskip("torchx")
    ours, theirs = (find_component(name), find_component(f"torchx.components.{name}"))
    assert [(p.name, p.kind, str(p.type), p.flags) for p in ours.parameters] == [
        (p.name, p.kind, str(p.type), p.flags) for p in theirs.parameters
    ]
    own = {"image", "cpu", "memMB"}
    assert [p.default for p in ours.parameters if p.name not in own] == [
        p.default for p in theirs.parameters if p.name not in own
    ]


@pytest.mark.parametrize("name", [name for name in CASES if name != "dist.spmd"])
@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
def test_no_limit_that_nobody_wrote(name: str) -> None:
    """A scheduler holds replicas to their cores and memory, so a component asks for none by itself."""
    for role in find_component(name).build(CASES[name][0]).roles:
        assert (role.resource.cpu, role.resource.memMB) == (-1, -1)
        assert role.resource.gpu <= 0


def test_every_built_in_component_is_compared() -> None:
    """A new one must be added to the cases above, or have none to be compared with."""
    built_in = [c.name for c in list_components() if c.source == "built-in"]
    assert built_in == sorted([*CASES, "dist.accelerate"])


def test_accelerate_is_torchrun_with_its_variables() -> None:
    """Those that ``accelerate launch`` sets for the options; the caller's own win."""
    words = ["--script", "train.py", "-j", "2x4", "--gpu", "4", "--max_retries", "1"]
    extra = ["--mixed_precision", "bf16", "--use_cpu", "true", "--env", "ACCELERATE_USE_CPU=false,A=b"]
    ours = find_component("dist.accelerate").build([*words, *extra, "--", "--lr", "1"])
    theirs = find_component("dist.torchrun").build([*words, "--", "--lr", "1"])
    added = {name: value for name, value in ours.roles[0].env.items() if name not in theirs.roles[0].env}
    assert added == {
        "ACCELERATE_MIXED_PRECISION": "bf16",
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1",
        "ACCELERATE_USE_CPU": "false",
        "A": "b",
    }
    ours.roles[0].env = theirs.roles[0].env
    assert ours == theirs
    with pytest.raises(InvalidInputError, match="mixed_precision must be one of no, fp16, bf16, fp8: 'half'"):
        dist.accelerate(script="train.py", mixed_precision="half")


def rendered(role: Role) -> list[str]:
    """Return the command line of replica 1 as a local scheduler runs it."""
    values = macros.Values(img_root="", app_id="app-1", replica_id="1", rank0_env="RANK0")
    return [role.entrypoint, *values.apply(role).args]


def test_one_node_meets_itself() -> None:
    """On a free port, whatever is asked for the rendezvous of several; ranks start through our program."""
    app = dist.torchrun("--lr", "1", script="train.py", j="1x2", rdzv_backend="static", rdzv_conf="timeout=9")
    shell, flag, script, name, program, *words = rendered(app.roles[0])
    assert (shell, flag, name) == ("sh", "-c", "torchrun")
    assert script.endswith('\nexec torchrun "$@"\n')
    assert program.startswith('"""Run a program as Python would')
    assert words == [
        *("--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv_conf", "timeout=9"),
        *("--rdzv_id", "app-1", "--nnodes", "1", "--nproc_per_node", "2", "--tee", "3", "--role", ""),
        *("--", "train.py", "--lr", "1"),
    ]


def test_several_nodes_meet_at_replica_0() -> None:
    """A shell finds out where that is, and passes all other words on as they are."""
    app = dist.torchrun(
        "a b", "$HOME", m="pkg.train", j="1:2x4", rdzv_backend="static", rdzv_conf="timeout=9"
    )
    shell, flag, script, *words = rendered(app.roles[0])
    assert (shell, flag) == ("sh", "-c")
    assert "host=${RANK0:-localhost}" in script
    assert words.pop(5).startswith('"""Run a program as Python would')
    assert words == [
        *("torchrun", "app-1", "1", "29500", ",timeout=9", "--rdzv_backend", "static", "--node_rank", "1"),
        *("--rdzv_id", "app-1", "--nnodes", "1:2", "--nproc_per_node", "4", "--tee", "3", "--role", ""),
        *("--", "-m", "pkg.train", "a b", "$HOME"),
    ]


def test_what_is_no_python_is_started_as_it_is() -> None:
    """By torchrun alone where there is one node."""
    app = dist.torchrun("prog", "-x", script=dist.NO_PYTHON, j="1x2")
    assert rendered(app.roles[0])[:2] == ["torchrun", "--rdzv_backend"]
    assert rendered(app.roles[0])[-3:] == ["--no-python", "prog", "-x"]
    for nodes in ("1x2", "2x2"):
        app = dist.torchrun("prog", script=dist.NO_PYTHON, j=nodes)
        assert not any("TORCHX_RANK_PROGRAM" in word for word in rendered(app.roles[0]))


@pytest.mark.parametrize("program", [{}, {"script": "a.py", "m": "a"}, {"script": ""}])
def test_torchrun_needs_one_program(program: dict[str, str]) -> None:
    """A script or a module, not both."""
    with pytest.raises(InvalidInputError, match="give either --script or -m"):
        dist.torchrun(**program)  # type: ignore[arg-type]  # the keys vary


@pytest.mark.parametrize("name", ["dist.ddp", "dist.spmd"])
def test_old_names_say_what_to_use(name: str) -> None:
    """They work all the same."""
    with pytest.warns(UserWarning, match=f"{name} is deprecated; use dist.torchrun"):
        find_component(name).build(["--script", "x.py"])


def test_the_caller_s_values_stay_the_caller_s() -> None:
    """An app does not share them."""
    env, metadata = {"A": "b"}, {"c": "d"}
    app = dist.torchrun(script="x.py", env=env, metadata=metadata)
    app.roles[0].env["A"] = app.metadata["c"] = "changed"
    assert (env, metadata) == ({"A": "b"}, {"c": "d"})
    assert utils.sh("ls", env=env).roles[0].env is not env


@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name, cases in CASES.items() for words in cases]
)
@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning", "ignore:In `-j:UserWarning")
def test_the_app_is_the_same_from_every_shell(
    name: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A component reads nothing of the submitter's environment: a repeated submit makes the same app."""
    here = find_component(name).build(words)
    for variable in ("HOME", "TMPDIR", "PWD"):
        monkeypatch.setenv(variable, str(tmp_path))
    for variable in ("LOGLEVEL", "USER", "TZ", "LC_ALL", "TORCHX_PARENT_RUN_ID", "WORLD_SIZE"):
        monkeypatch.setenv(variable, "elsewhere")
    with chdir(tmp_path):
        assert find_component(name).build(words) == here


def test_programs_have_nothing_that_a_macro_could_change() -> None:
    """They are arguments, in which macros are filled in."""
    for app in (utils.copy("a", "b"), utils.booth(1, 2)):
        assert "$" not in app.roles[0].args[1]


@pytest.mark.parametrize("programs", [{}, {"m": "a", "c": "b"}, {"script": "x", "m": "a"}])
def test_python_needs_one_program(programs: dict[str, str]) -> None:
    """A module, a text or a script."""
    with pytest.raises(InvalidInputError, match="give exactly one of -m, -c and --script"):
        utils.python(**programs)  # type: ignore[arg-type]  # the keys vary
