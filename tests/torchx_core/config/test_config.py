from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import invalidate_caches
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.config import Config, RunDefaults, read_config
from torchx_core.config.config import parse_file
from torchx_core.errors import InvalidConfigError
from torchx_core.specs import CfgVal, runopts


def options() -> runopts:
    """One option of every type, and one that must be given."""
    opts = runopts()
    opts.add("log_dir", type_=str, help="a text", default="logs")
    opts.add("retries", type_=int, help="a number")
    opts.add("rate", type_=float, help="a fraction")
    opts.add("keep", type_=bool, help="a switch")
    opts.add("tags", type_=list[str], help="a list")
    opts.add("env", type_=dict[str, str], help="a map")
    return opts


def config_of(*texts: str, **environment: str) -> Config:
    """Files with these texts, the strongest first."""
    files = tuple(parse_file(text, f"file{i}") for i, text in enumerate(texts, start=1))
    return Config(files=files, environment=environment)


def cfg_of(*lines: str) -> dict[str, CfgVal]:
    """What one file with these lines in a scheduler's section gives."""
    return config_of("\n".join(["[local_cwd]", *lines])).cfg("local_cwd", options())


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("log_dir = /tmp/a b", "/tmp/a b"),
        ("log_dir =", ""),
        ("log_dir = a,b=c;d # no comment", "a,b=c;d # no comment"),
        ('log_dir = ["a", "b"]', '["a", "b"]'),
        ('log_dir = "a"-"b"', '"a"-"b"'),
        ('log_dir = "open', '"open'),
        ('log_dir = " a "', " a "),
        ("log_dir = 'None'", "None"),
        ("log_dir = one\n  two", "one\ntwo"),
        ("log_dir = None", None),
        ("logDir = x", "x"),
        ("retries = 3", 3),
        ("retries = None", None),
        ("rate = 1e-3", 0.001),
        ("keep = True", True),
        ("keep = off", False),
        ("tags = a,b;c,", ["a", "b", "c"]),
        ("tags = a,b=c", ["a", "b=c"]),
        ("tags =", []),
        ("tags = a\n  b,\n  c", ["a", "b", "c"]),
        ('tags = "a,b",c', ["a,b", "c"]),
        ("env = A:1,B:2:3", {"A": "1", "B": "2:3"}),
        ("env =", {}),
        ("env = A:1\n  B:", {"A": "1", "B": ""}),
    ],
)
def test_values_have_the_options_types(line: str, value: CfgVal) -> None:
    """As TorchX reads them; quotes hold what begins or ends with a space, or has a separator."""
    assert list(cfg_of(line).values()) == [value]


def test_a_placeholder_counts_as_absent() -> None:
    """TorchX takes the ``#FIXME`` that its own `configure` wrote for a value."""
    assert cfg_of("log_dir = #FIXME:(str) where logs go") == {}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["", "log_dri = x"], "file1:3: unknown run option 'log_dri' of local_cwd; known: log_dir, "),
        (["log_dri = x"], "env; did you mean 'log_dir'?"),
        (["queue = #FIXME"], "file1:2: unknown run option 'queue' of local_cwd"),
        (["retries = many"], "file1:2: run option retries must be int: expected int: 'many'"),
        (["retries ="], "file1:2: run option retries must be int: expected int: ''"),
        (["rate = fast"], "file1:2: run option rate must be float: expected float: 'fast'"),
        (["keep = maybe"], "file1:2: run option keep must be bool: expected one of true, 1, yes, on, false"),
        (["env = A"], "file1:2: run option env must be dict[str, str]: expected key:value: 'A'"),
        (['tags = "a'], "file1:2: run option tags must be list[str]: a quote is never closed"),
        (
            ["log_dir = a", "logDir = b"],
            "file1:3: run option log_dir is set twice: 'b', and 'a' in line 2",
        ),
    ],
)  # fmt: skip
def test_a_bad_option_is_refused_with_its_line(lines: list[str], message: str) -> None:
    """The error says what is allowed, and what may have been meant."""
    with pytest.raises(InvalidConfigError) as caught:
        cfg_of(*lines)
    assert message in str(caught.value)


def test_an_option_may_have_two_spellings_of_one_value() -> None:
    """Nothing contradicts then."""
    assert cfg_of("log_dir = a", "logDir = a") == {"log_dir": "a"}


def test_a_value_that_equals_nothing_does_not_contradict_itself() -> None:
    """What NaN means is the scheduler's to judge."""
    assert str(cfg_of("rate = nan")) == "{'rate': nan}"


def test_a_scheduler_without_options_says_so() -> None:
    """Instead of an empty list."""
    with pytest.raises(InvalidConfigError, match=r"unknown run option 'x' of slurm; known: none$"):
        config_of("[slurm]\nx = 1").cfg("slurm", runopts())


VALUES = st.dictionaries(st.sampled_from(["log_dir", "retries", "tags"]), st.integers(0, 9))


def as_cfg(numbers: dict[str, int]) -> dict[str, CfgVal]:
    """Give each number the type of its option."""
    typed: dict[str, Callable[[int], CfgVal]] = {"log_dir": str, "retries": int, "tags": lambda n: [str(n)]}
    return {key: typed[key](n) for key, n in numbers.items()}


@given(explicit=VALUES, variable=VALUES, strong=VALUES, weak=VALUES, camel=st.booleans())
def test_the_stronger_wins(
    explicit: dict[str, int],
    variable: dict[str, int],
    strong: dict[str, int],
    weak: dict[str, int],
    camel: bool,
) -> None:
    """Given over environment over the first file over the next, for each option by itself."""
    texts = ["[local_cwd]\n" + "\n".join(f"{k} = {v}" for k, v in file.items()) for file in (strong, weak)]
    text = ",".join(f"{k}={v}" for k, v in variable.items())
    config = config_of(*texts, TORCHX_CFG_LOCAL_CWD=text)
    wanted = as_cfg({**weak, **strong, **variable, **explicit})
    spelled = {"logDir" if camel and k == "log_dir" else k: v for k, v in as_cfg(explicit).items()}
    cfg = config.cfg("local_cwd", options(), spelled)
    assert options().resolve(cfg) == options().resolve(wanted)
    assert config.origins("local_cwd", options()).keys() == {**weak, **strong, **variable}.keys()


def test_none_hides_weaker_values() -> None:
    """Given, or written in a stronger file: the scheduler's default holds."""
    config = config_of("[local_cwd]\nlog_dir = None", "[local_cwd]\nlog_dir = x\nretries = 3")
    cfg = config.cfg("local_cwd", options(), {"retries": None})
    assert cfg == {"log_dir": None, "retries": None}
    assert options().resolve(cfg)["log_dir"] == "logs"


def test_given_values_are_taken_as_they_are() -> None:
    """Who resolves the cfg refuses an unknown name; here it must not hide anything."""
    given_cfg: dict[str, CfgVal] = {"unknown": 1}
    assert config_of("[local_cwd]\nretries=1").cfg("local_cwd", options(), given_cfg) == {
        "retries": 1,
        "unknown": 1,
    }
    assert given_cfg == {"unknown": 1}


def test_origins_say_where_a_value_comes_from() -> None:
    """A file and a line, or a variable."""
    config = config_of(
        "[local_cwd]\nretries = 1", "[local_cwd]\nrate = 1\nretries = 2", TORCHX_CFG_LOCAL_CWD="keep=on"
    )
    origins = config.origins("local_cwd", options())
    assert {key: str(origin) for key, origin in origins.items()} == {
        "keep": "$TORCHX_CFG_LOCAL_CWD",
        "retries": "file1:2",
        "rate": "file2:2",
    }


def test_schedulers_do_not_see_each_other() -> None:
    """A section is about one scheduler; an error in another's is that one's."""
    config = config_of("[local_cwd]\nretries = 1\n[local_dir]\nwrong = 1", TORCHX_CFG_LOCAL_DIR="wrong=1")
    assert config.cfg("local_cwd", options()) == {"retries": 1}


def test_the_bridge_finds_torchxs_section() -> None:
    """A file that TorchX reads has ``[kubernetes]``; the name with ``torchx:`` is the stronger of the two."""
    config = config_of("[kubernetes]\nretries = 1\nrate = 1", "[torchx:kubernetes]\nretries = 2\nkeep = on")
    assert config.cfg("torchx:kubernetes", options()) == {"retries": 1, "rate": 1.0, "keep": True}
    config = config_of("[kubernetes]\nretries = 1\n[torchx:kubernetes]\nretries = 2")
    assert config.cfg("torchx:kubernetes", options()) == {"retries": 2}


def test_the_bridge_leaves_our_sections_alone() -> None:
    """Our local_cwd has other options than TorchX's."""
    config = config_of("[local_cwd]\nretries = 1", TORCHX_CFG_TORCHX_LOCAL_CWD="keep=on")
    assert config.cfg("torchx:local_cwd", options()) == {"keep": True}


COMPONENTS = ("[component:dist.ddp]\nj = 1x2\nscript = a", "[component:dist.ddp]\nj = 2x2\nimage = i:%%1")


def test_component_defaults_are_text() -> None:
    """Merged by option; which component has which is the component's to know."""
    config = config_of(*COMPONENTS)
    assert config.component_defaults("dist.ddp") == {"j": "1x2", "script": "a", "image": "i:%1"}
    assert config.component_defaults("./file.py:train") == {}


def test_component_parameters_can_be_checked() -> None:
    """Here the error can say the line."""
    config = config_of(*COMPONENTS)
    assert len(config.component_defaults("dist.ddp", parameters=["j", "script", "image"])) == 3
    message = "file2:3: component dist.ddp has no parameter 'image'; known: images, j, script; did you mean"
    with pytest.raises(InvalidConfigError, match=message):
        config.component_defaults("dist.ddp", parameters=["images", "j", "script"])


def test_run_defaults() -> None:
    """Each from the strongest place that has it; the environment knows the scheduler only."""
    config = config_of(
        "[cli:run]\ncomponent = dist.ddp", "[cli:run]\ncomponent=x\nscheduler = slurm\nworkspace="
    )
    assert config.run_defaults() == RunDefaults(scheduler="slurm", component="dist.ddp", workspace="")
    config = config_of("[cli:run]\nscheduler = slurm", TORCHX_SCHEDULER="local_cwd")
    assert config.run_defaults() == RunDefaults(scheduler="local_cwd")


def test_an_empty_default_is_none() -> None:
    """An empty name names nothing; an empty workspace asks for none."""
    config = config_of("[cli:run]\nscheduler =\ncomponent =")
    assert config.run_defaults() == Config().run_defaults() == RunDefaults()


def test_read_config_takes_files_and_environment(tmp_path: Path) -> None:
    """Of the variables, those that are options: no other ``TORCHX_…`` is one."""
    (tmp_path / ".torchxconfig").write_text("[local_cwd]\nretries = 1")
    environ = {
        "TORCHX_SCHEDULER": "slurm",
        "TORCHX_CFG_LOCAL_CWD": "keep=on",
        "TORCHX_CFG_TORCHX_SLURM": "",
        "TORCHX_CFG": "retries=2",
        "TORCHX_RETRIES": "3",
        "TORCHX_COMPONENT": "x",
    }
    config = read_config([str(tmp_path)], environ)
    assert config.environment.keys() == {"TORCHX_SCHEDULER", "TORCHX_CFG_LOCAL_CWD"}
    assert config.cfg("local_cwd", options()) == {"keep": True, "retries": 1}
    assert config.run_defaults() == RunDefaults(scheduler="slurm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("retries=many", r"\$TORCHX_CFG_LOCAL_CWD: run option retries must be int"),
        ("log_dri=x", r"\$TORCHX_CFG_LOCAL_CWD: unknown run option 'log_dri'; .*did you mean 'log_dir'"),
        ("nonsense", r"\$TORCHX_CFG_LOCAL_CWD: malformed cfg 'nonsense': expected KEY=VALUE"),
    ],
)
def test_a_bad_variable_is_refused_by_name(text: str, message: str) -> None:
    """As a bad line is by its place."""
    with pytest.raises(InvalidConfigError, match=message) as caught:
        config_of(TORCHX_CFG_LOCAL_CWD=text).cfg("local_cwd", options())
    assert caught.value.line is None


def test_a_variable_for_an_unknown_scheduler_is_refused(tmp_path: Path) -> None:
    """It would never be read."""
    message = r"\$TORCHX_CFG_LOCAL_CDW: options for a scheduler .*mean 'TORCHX_CFG_LOCAL_CWD'\?$"
    with pytest.raises(InvalidConfigError, match=message):
        read_config([str(tmp_path)], {"TORCHX_CFG_LOCAL_CDW": "x=1"})


@pytest.mark.parametrize(
    "section",
    [
        "local_cwd",
        "kubernetes",
        "aws_batch",
        "component:x",
        "component:a/b.py:c",
        "torchx:tracker",
        "torchx:ray",
    ],
)
def test_known_sections(section: str) -> None:
    """A file that is shared with TorchX has sections for schedulers that are not here."""
    assert list(parse_file(f"[{section}]\nanything = 1", "f").sections) == [section]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n[local_cdw]", r"f:2: unknown section \[local_cdw\]; known: component:<name>, "),
        ("[local_cdw]", r"local_cwd, local_dir.*did you mean 'local_cwd'\?; a scheduler is known"),
        ("[DEFAULT]", r"f:1: \[DEFAULT\] adds nothing to other sections here"),
        ("[cli]", r"unknown section \[cli\]"),
        ("[tracker]", r"unknown section \[tracker\]"),
        ("[torchx:trakcer]", r"unknown section \[torchx:trakcer\]; .*did you mean 'torchx:tracker'"),
        ("[cli:run]\ncomponent=x\nschedule=y", r"f:3: unknown option 'schedule' in \[cli:run\]; known:"),
        ("[cli:run]\ntee_logs=yes", r"known: scheduler, component, workspace$"),
        ("[cli:list]\ncomponent=x", r"unknown option 'component' in \[cli:list\]; known: scheduler$"),
        ("[tracker:x]\nconfigs=x", r"unknown option 'configs' in \[tracker:x\]; known: config; did you mean"),
    ],
)  # fmt: skip
def test_what_nothing_reads_is_refused(text: str, message: str) -> None:
    """Before anything runs, whichever scheduler is used."""
    with pytest.raises(InvalidConfigError, match=message):
        parse_file(text, "f")


@pytest.mark.parametrize("section", ["my_batch", "some tool", "cli:status", "aws_batch", "component:"])
def test_what_belongs_to_others_is_ignored(section: str, caplog: pytest.LogCaptureFixture) -> None:
    """A scheduler that is not installed here, or another program: they may share the file."""
    assert parse_file(f"[{section}]\nanything = 1\n[local_cwd]\nlog_dir = /x\n", "f").sections
    told = [record.getMessage() for record in caplog.records]
    assert (
        told == []
        if section in ("aws_batch", "component:")
        else f"ignored: f:1: unknown section [{section}]" in told[0]
    )


def test_an_installed_scheduler_is_known_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a file never runs the code of a plugin, be it one of ours or of TorchX."""
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[torchx_core.schedulers]\nours = txc_bomb:create\n[torchx.schedulers]\ntheirs = txc_bomb:create\n"
    )
    (tmp_path / "txc_bomb.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    invalidate_caches()
    (tmp_path / ".torchxconfig").write_text("[ours]\nx = 1\n[theirs]\nx = 2\n[torchx:theirs]")
    config = read_config([str(tmp_path)], {"TORCHX_CFG_OURS": "x=2"})
    assert [config.settings(name)["x"].text for name in ("ours", "theirs")] == ["1", "2"]
