from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.specs import InvalidRunConfigException, runopts


def options() -> runopts:
    """One option of every type."""
    opts = runopts()
    opts.add("FOO", type_=list[str], help="a list")
    opts.add("BAR", type_=str, help="a text")
    opts.add("MAP", type_=dict[str, str], help="a map")
    opts.add("NUM", type_=int, help="a number")
    opts.add("RATE", type_=float, help="a fraction")
    opts.add("FLAG", type_=bool, help="a switch")
    opts.add("k8s.context-name", type_=str, help="a key with dots")
    return opts


@pytest.mark.parametrize(
    ("text", "cfg"),
    [
        ("", {}),
        ("  ", {}),
        ("FOO=v1", {"FOO": ["v1"]}),
        ("FOO=v1,v2", {"FOO": ["v1", "v2"]}),
        ("FOO=v1;v2", {"FOO": ["v1", "v2"]}),
        ("FOO=v1,v2,BAR=v3", {"FOO": ["v1", "v2"], "BAR": "v3"}),
        ("FOO=v1;v2,BAR=v3", {"FOO": ["v1", "v2"], "BAR": "v3"}),
        ("FOO=v1;v2;BAR=v3", {"FOO": ["v1", "v2"], "BAR": "v3"}),
        ("FOO=v1,v2,", {"FOO": ["v1", "v2"]}),
        ("BAR=a,b;c,NUM=1", {"BAR": "a,b;c", "NUM": 1}),
        ("MAP=a:1,b:2:3;c:,NUM=2", {"MAP": {"a": "1", "b": "2:3", "c": ""}, "NUM": 2}),
        ("BAR=C:\\dir\\x", {"BAR": "C:\\dir\\x"}),
        ("BAR='a'", {"BAR": "a"}),
        ("BAR='a,b',NUM=1", {"BAR": "a,b", "NUM": 1}),
        ('BAR="a,NUM=1;b"', {"BAR": "a,NUM=1;b"}),
        ('BAR=""', {"BAR": ""}),
        ('BAR="C:\\new"', {"BAR": "C:\\new"}),
        ("BAR=it's", {"BAR": "it's"}),
        ("BAR= a b ,NUM=1", {"BAR": "a b", "NUM": 1}),
        ('FOO="a,b=c;d"', {"FOO": ["a", "b=c", "d"]}),
        ('FOO=""', {"FOO": []}),
        ('MAP="a:b,c:d=e"', {"MAP": {"a": "b", "c": "d=e"}}),
        ('BAR=say "hi"', {"BAR": 'say "hi"'}),
    ],
)
def test_what_torchx_reads(text: str, cfg: dict[str, object]) -> None:
    """Strings that work with TorchX mean the same here."""
    assert options().cfg_from_str(text) == cfg


@pytest.mark.parametrize(
    ("text", "cfg"),
    [
        ("BAR=a=b", {"BAR": "a=b"}),
        ("BAR=http://x/?q=1&r=2,NUM=3", {"BAR": "http://x/?q=1&r=2", "NUM": 3}),
        ("BAR=", {"BAR": ""}),
        ("BAR=,NUM=1", {"BAR": "", "NUM": 1}),
        ("FOO=,MAP=", {"FOO": [], "MAP": {}}),
        ("NUM=1, BAR=x", {"NUM": 1, "BAR": "x"}),
        ("k8s.context-name=x", {"k8s.context-name": "x"}),
        ("BAR=' x\n\"y\" '", {"BAR": ' x\n"y" '}),
        ('BAR="say ""hi"", ok"', {"BAR": 'say "hi", ok'}),
        ("BAR='it''s, ok'", {"BAR": "it's, ok"}),
        ('BAR= "a,b" ,NUM=1', {"BAR": "a,b", "NUM": 1}),
        ('FOO="a,b",c, "", "d" ,NUM=1', {"FOO": ["a,b", "c", "", "d"], "NUM": 1}),
        ('FOO="a,b",,NUM=1', {"FOO": ["a,b"], "NUM": 1}),
        ('MAP="a:b":"c,d",e:f', {"MAP": {"a:b": "c,d", "e": "f"}}),
        ("MAP='a':\"b,c\"", {"MAP": {"a": "b,c"}}),
        ('MAP="a:b,c",', {"MAP": {"a": "b,c"}}),
        ("NUM=1,NUM=2", {"NUM": 2}),
        ("RATE=1e-3", {"RATE": 0.001}),
    ],
)
def test_what_only_we_read(text: str, cfg: dict[str, object]) -> None:
    """Equal signs, empty values and quotes work."""
    assert options().cfg_from_str(text) == cfg


@pytest.mark.parametrize("word", ["true", "1", "yes", "on", "True", "ON", " yes "])
def test_true_words(word: str) -> None:
    """The words of INI files for true, in any case."""
    assert options().cfg_from_str(f"FLAG={word}") == {"FLAG": True}


@pytest.mark.parametrize("word", ["false", "0", "no", "off", "False", "OFF"])
def test_false_words(word: str) -> None:
    """The words of INI files for false, in any case."""
    assert options().cfg_from_str(f"FLAG={word}") == {"FLAG": False}


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("FOO", "", "malformed cfg 'FOO': expected KEY=VALUE.* at 'FOO'"),
        ("=1", "", "expected KEY=VALUE"),
        (",NUM=1", "", "expected KEY=VALUE"),
        ('BAR="a', "", "a quote is never closed at '\"a'; put it into other quotes"),
        ('BAR="a"b', "", "expected ',' or ';' after the closing quote at 'b'"),
        ('MAP="a":"b', "", "a quote is never closed"),
        ("BAR='a", "", "a quote is never closed"),
        ('BAR="""', "", "a quote is never closed"),
        ("NUM=x", "NUM", "run option NUM must be int: expected int: 'x'"),
        ("NUM=", "NUM", "expected int: ''"),
        ("RATE=fast", "RATE", "run option RATE must be float: expected float: 'fast'"),
        ("FLAG=maybe", "FLAG", "run option FLAG must be bool: expected one of true, 1, .*: 'maybe'"),
        ("MAP=a", "MAP", r"run option MAP must be dict\[str, str\]: expected key:value: 'a'"),
        ('BAR="a","b"', "BAR", "expected one quoted text"),
        ('BAR="a":"b"', "BAR", "expected one quoted text"),
        ('FOO="a":"b"', "FOO", "expected a text, not key and value"),
        ("FOZ=1", "FOZ", "unknown run option 'FOZ'; known: FOO, BAR, .*did you mean 'FOO'"),
    ],
)
def test_malformed(text: str, key: str, message: str) -> None:
    """The error names the option and says what was expected."""
    with pytest.raises(InvalidRunConfigException, match=message) as caught:
        options().cfg_from_str(text)
    assert caught.value.cfg_key == key


@pytest.mark.parametrize(
    ("cfg", "text"),
    [
        ({}, ""),
        ({"FOO": ["v1", "v2"], "BAR": "v3"}, "FOO=v1,v2,BAR=v3"),
        ({"MAP": {"a": "1", "b": "2:3"}, "FLAG": True}, "MAP=a:1,b:2:3,FLAG=true"),
        ({"NUM": 1, "RATE": 0.5, "FLAG": False, "BAR": None}, "NUM=1,RATE=0.5,FLAG=false"),
        ({"BAR": "a=b"}, "BAR=a=b"),
        ({"BAR": "a,b"}, 'BAR="a,b"'),
        ({"BAR": " a"}, 'BAR=" a"'),
        ({"BAR": '"'}, 'BAR=""""'),
        ({"BAR": "'"}, 'BAR="\'"'),
        ({"FOO": ["a,b"]}, 'FOO="a,b",'),
        ({"FOO": [""], "NUM": 1}, 'FOO="",,NUM=1'),
        ({"FOO": ["", "x=y"]}, 'FOO="","x=y"'),
        ({"MAP": {"a:b": "c", "d": "e=f"}}, 'MAP="a:b":"c","d":"e=f"'),
    ],
)
def test_cfg_to_str(cfg: dict[str, object], text: str) -> None:
    """Quotes appear only where they are needed, and None is left out."""
    assert options().cfg_to_str(cfg) == text  # type: ignore[arg-type]  # values of many types in one table


def test_cfg_to_str_uses_registered_names() -> None:
    """Both spellings give the registered one."""
    opts = runopts()
    opts.add("log_dir", type_=str, help="")
    assert opts.cfg_to_str({"logDir": "x"}) == "log_dir=x"


def test_cfg_to_str_checks_types() -> None:
    """A wrong value never becomes a text that reads back as something else."""
    with pytest.raises(InvalidRunConfigException, match=r"run option NUM must be int: '1' \(str\)"):
        options().cfg_to_str({"NUM": "1"})


pieces = st.sampled_from(
    ["FOO=", "BAR=", "MAP=", "NUM=1", "RATE=.5", "FLAG=on", "k8s.context-name=", "a:b", "'", '"']
)


@given(st.lists(pieces | st.sampled_from(",;:= \n") | st.text(max_size=3), max_size=8).map("".join))
def test_what_is_read_from_any_text_survives_being_written(text: str) -> None:
    """It is refused by our own error, or read; what was read has one written form, which says the same."""
    opts = options()
    try:
        cfg = opts.cfg_from_str(text)
    except InvalidRunConfigException:
        return
    written = opts.cfg_to_str(cfg)
    assert opts.cfg_from_str(written) == cfg
    assert opts.cfg_to_str(opts.cfg_from_str(written)) == written
