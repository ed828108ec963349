from __future__ import annotations

import math
import string
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.errors import InvalidInputError
from torchx_core.specs import CfgVal, InvalidRunConfigException, get_type_name, runopt, runopts

TYPES: dict[object, st.SearchStrategy[CfgVal]] = {
    str: st.text(),
    int: st.integers(),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    list[str]: st.lists(st.text()),
    dict[str, str]: st.dictionaries(st.text(), st.text()),
}
names = st.builds(
    str.__add__, st.sampled_from(string.ascii_letters + "_"), st.text(string.ascii_letters + "0._-")
)


def options(*, required: bool = False) -> runopts:
    """Three options, one of which may be required."""
    opts = runopts()
    opts.add("cluster_name", type_=str, help="where", required=required)
    opts.add("num", type_=int, default=3, help="how many")
    opts.add("tags", type_=list[str], default=["a"], help="labels")
    return opts


@given(st.data())
def test_any_cfg_survives_its_text_form(data: st.DataObject) -> None:
    """``cfg_from_str(cfg_to_str(cfg))`` is ``cfg``, whatever the values hold."""
    opts, cfg = runopts(), dict[str, CfgVal]()
    for name in data.draw(st.lists(names, unique_by=str.lower, max_size=5)):
        tp = data.draw(st.sampled_from(list(TYPES)))
        opts.add(name, type_=tp, help="")
        cfg[name] = data.draw(TYPES[tp])
    assert opts.cfg_from_str(opts.cfg_to_str(cfg)) == cfg


@given(st.text(st.sampled_from('"\\,;:= \nab') | st.characters()))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text after a key makes the parser fail otherwise than with its own error."""
    opts = runopts()
    opts.add("k", type_=dict[str, str], help="")
    try:
        cfg = opts.cfg_from_str(f"k={text}")
    except InvalidRunConfigException:
        return
    assert opts.cfg_from_str(opts.cfg_to_str(cfg)) == cfg


def test_resolve_fills_in_defaults() -> None:
    """Every option is there afterwards, and None counts as not given."""
    assert options().resolve({"num": None}) == {"cluster_name": None, "num": 3, "tags": ["a"]}
    assert options().resolve({"num": 5})["num"] == 5


def test_resolved_values_are_private() -> None:
    """Changing a resolved cfg changes neither the defaults nor the cfg given."""
    opts, given_cfg = options(), {"tags": ["x"]}
    for cfg in ({}, given_cfg):
        tags = opts.resolve(cfg)["tags"]
        assert isinstance(tags, list)
        tags.append("changed")
    assert opts.resolve({})["tags"] == ["a"]
    assert given_cfg == {"tags": ["x"]}


@pytest.mark.parametrize("cfg", [{}, {"cluster_name": None}])
def test_required_option(cfg: dict[str, CfgVal]) -> None:
    """A required option must be given, and None is not giving it."""
    with pytest.raises(
        InvalidRunConfigException, match=r"run option cluster_name is required \(str\)"
    ) as caught:
        options(required=True).resolve(cfg)
    assert caught.value.cfg_key == "cluster_name"


def test_unknown_option_raises() -> None:
    """A typo never passes silently, and the close name is offered in either spelling."""
    with pytest.raises(
        InvalidRunConfigException, match=r"unknown run option 'clusterNam'.*'cluster_name'"
    ) as caught:
        options().resolve({"clusterNam": "x"})
    assert caught.value.cfg_key == "clusterNam"


def test_unknown_option_of_a_scheduler_without_options() -> None:
    """The list of known options says that there are none."""
    with pytest.raises(InvalidRunConfigException, match="unknown run option 'x'; known: none"):
        runopts().resolve({"x": 1})


def test_an_unknown_option_may_pass() -> None:
    """All three ways in can leave out what belongs to somebody else."""
    opts = options()
    assert opts.resolve({"x": 1}, ignore_unknown=True)["x"] == 1
    assert opts.cfg_from_str("x=1,num=2", ignore_unknown=True) == {"num": 2}
    assert opts.cfg_from_json_repr('{"x": 1, "num": 2}', ignore_unknown=True) == {"num": 2}


@pytest.mark.parametrize(
    ("key", "alias"),
    [("cluster_name", "clusterName"), ("a_b_c", "aBC"), ("k8s.name_space", "k8s.nameSpace"), ("x_1", "x1")],
)
def test_camel_case_spells_the_registered_option(key: str, alias: str) -> None:
    """A ``clusterName`` is ``cluster_name`` everywhere, and results use the registered name."""
    opts = runopts()
    opts.add(key, type_=str, help="")
    assert opts.canonical_key(alias) == opts.canonical_key(key) == key
    assert opts.get(alias) is opts.get(key) is not None
    assert opts.resolve({alias: "x"}) == opts.cfg_from_str(f"{alias}=x") == {key: "x"}


def test_a_registered_name_is_no_alias() -> None:
    """Where both spellings are registered, each is itself."""
    opts = runopts()
    opts.add("clusterName", type_=str, help="")
    opts.add("cluster_name", type_=str, help="")
    assert opts.resolve({"clusterName": "a", "cluster_name": "b"}) == {
        "clusterName": "a",
        "cluster_name": "b",
    }


@pytest.mark.parametrize("key", ["_x", "plain", "cluster__name"])
def test_no_alias_from_nothing(key: str) -> None:
    """Names without an inner single underscore have one spelling."""
    opts = runopts()
    opts.add(key, type_=str, help="")
    assert opts.canonical_key(key) == key
    assert opts.canonical_key("X") is None


def test_both_spellings_must_agree() -> None:
    """Contradictions raise; repetition and None do not."""
    opts = options()
    with pytest.raises(InvalidRunConfigException, match="given twice: clusterName='a' and cluster_name='b'"):
        opts.resolve({"clusterName": "a", "cluster_name": "b"})
    for cfg in (
        {"clusterName": "a", "cluster_name": "a"},
        {"clusterName": "a", "cluster_name": None},
        {"clusterName": None, "cluster_name": "a"},
    ):
        assert opts.resolve(cfg)["cluster_name"] == "a"


def test_a_value_that_equals_nothing_does_not_contradict_itself() -> None:
    """NaN is given once, whatever it compares equal to."""
    opts = runopts()
    opts.add("rate", type_=float, help="")
    assert str(opts.resolve({"rate": math.nan})) == "{'rate': nan}"


@pytest.mark.parametrize(
    ("value", "tp", "expected"),
    [
        ("x", str, True),
        (1, str, False),
        (1, int, True),
        (True, int, False),
        (1.0, int, False),
        (1.5, float, True),
        (1, float, True),
        (True, float, False),
        (False, bool, True),
        (0, bool, False),
        (["a"], list[str], True),
        (["a"], typing.List[str], True),  # noqa: UP006  (TorchX's spelling)
        ([1], list[str], False),
        (("a",), list[str], False),
        ({"a": "b"}, list[str], False),
        ("ab", list[str], False),
        ({"a": "b"}, dict[str, str], True),
        ({"a": "b"}, typing.Dict[str, str], True),  # noqa: UP006  (TorchX's spelling)
        ({"a": 1}, dict[str, str], False),
        ({1: "a"}, dict[str, str], False),
        (["a"], dict[str, str], False),
        (None, str, False),
        ([1], list[int], False),
    ],
)
def test_is_type(value: object, tp: object, *, expected: bool) -> None:
    """A bool is no int, a dict is no list, and items count."""
    assert runopts.is_type(value, tp) is expected


def test_resolve_checks_types() -> None:
    """The error shows the value with its type."""
    with pytest.raises(InvalidRunConfigException, match=r"run option num must be int: True \(bool\)"):
        options().resolve({"num": True})


@pytest.mark.parametrize(
    ("text", "cfg"),
    [
        ("{}", {}),
        ('{"num": 2, "tags": [1, "b"]}', {"num": 2, "tags": ["1", "b"]}),
        ('{"env": {"a": 1}, "num": null}', {"env": {"a": "1"}, "num": None}),
        ('{"clusterName": "x"}', {"cluster_name": "x"}),
    ],
)
def test_cfg_from_json_repr(text: str, cfg: dict[str, CfgVal]) -> None:
    """Items of lists and dicts become strings, null stays None, names are the registered ones."""
    opts = options()
    opts.add("env", type_=dict[str, str], help="")
    assert opts.cfg_from_json_repr(text) == cfg


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "malformed cfg: not JSON"),
        ("[]", "malformed cfg: expected a JSON object"),
        ('{"num": "1"}', r"run option num must be int: '1' \(str\)"),
        ('{"tags": {"a": 1}}', r"run option tags must be list\[str\]"),
        ('{"nun": 1}', "unknown run option 'nun'.*did you mean 'num'"),
        ('{"clusterNam": "x"}', r"did you mean 'cluster_name'\?"),
    ],
)
def test_cfg_from_json_repr_refuses(text: str, message: str) -> None:
    """Wrong JSON, wrong types and unknown names raise."""
    with pytest.raises(InvalidRunConfigException, match=message):
        options().cfg_from_json_repr(text)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            {"type_": str, "default": "x", "required": True},
            "run option k is required, so it cannot have a default",
        ),
        ({"type_": int, "default": "x"}, r"default of run option k must be int: 'x' \(str\)"),
        ({"type_": tuple}, "unsupported type of a run option: tuple; expected str, int"),
        ({"type_": list[int]}, "unsupported type"),
    ],
)
def test_add_refuses(kwargs: dict[str, typing.Any], message: str) -> None:
    """An option that cannot work is refused where it is written."""
    with pytest.raises(InvalidInputError, match=message):
        runopts().add("k", help="", **kwargs)


@pytest.mark.parametrize("key", ["", " k", "k ", "a b", "a,b", "a=b", "1a", "k\n"])
def test_add_refuses_names_without_a_text_form(key: str) -> None:
    """Every registered option can be set from the command line."""
    with pytest.raises(InvalidInputError, match="not a name for a run option"):
        runopts().add(key, type_=str, help="")


def test_update_and_union() -> None:
    """Later options replace earlier ones; the union leaves both sides alone."""
    left, right = options(), runopts()
    right.add("num", type_=str, help="other")
    right.add("new_one", type_=str, help="")
    both = left | right
    assert [key for key, _ in both] == ["cluster_name", "num", "tags", "new_one"]
    assert (len(left), len(right), len(both)) == (3, 2, 4)
    assert both.get("num") == runopt(None, str, is_required=False, help="other")
    assert both.get("newOne") is not None
    assert left.get("no") is None


def test_help_text() -> None:
    """Printing the options explains them, required ones first."""
    opts = options()
    opts.add("user", type_=str, required=True, help="who runs it")
    assert repr(opts) == (
        "usage:\n"
        "    user=USER,[cluster_name=CLUSTER_NAME],[num=NUM],[tags=TAGS]\n"
        "\n"
        "required arguments:\n"
        "    user=USER (str)\n"
        "        who runs it\n"
        "\n"
        "optional arguments:\n"
        "    cluster_name=CLUSTER_NAME (str, None)\n"
        "        where\n"
        "    num=NUM (int, 3)\n"
        "        how many\n"
        "    tags=TAGS (list[str], ['a'])\n"
        "        labels"
    )


def test_help_text_of_no_options() -> None:
    """A scheduler without options has a short help text."""
    assert repr(runopts()).split() == ["usage:"]


def test_type_names() -> None:
    """Types are spelled as one writes them today."""
    spelled = [get_type_name(tp) for tp in (int, typing.List[str], dict[str, str], tuple, None)]  # noqa: UP006
    assert spelled == ["int", "list[str]", "dict[str, str]", "tuple", "None"]
