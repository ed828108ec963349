from __future__ import annotations

from importlib import import_module
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchx_core.errors import InvalidAppError
from torchx_core.specs import BindMount, DeviceMount, VolumeMount, parse_mounts
from torchx_core.specs.mounts import Mount

paths = st.text(min_size=1).filter(lambda t: not t.startswith("~"))
binds = st.builds(BindMount, paths, paths, st.booleans())
volumes = st.builds(VolumeMount, paths, paths, st.booleans())
devices = st.builds(DeviceMount, paths, paths, st.sampled_from(["r", "rw", "mwr", "rwm"]))
mounts = st.lists(binds | volumes | devices, max_size=4)


def as_options(mount: BindMount | VolumeMount | DeviceMount) -> list[str]:
    """Write a mount as options, in different spellings."""
    match mount:
        case BindMount():
            flags = ["readonly"] if mount.read_only else []
            return ["type=bind", f"src={mount.src_path}", f"dst={mount.dst_path}", *flags]
        case VolumeMount():
            return [
                "type=volume",
                f"readonly={mount.read_only}",
                f"source={mount.src}",
                f"target={mount.dst_path}",
            ]
        case DeviceMount():
            return [
                "type=device",
                f"perm={mount.permissions}",
                f"src={mount.src_path}",
                f"dst={mount.dst_path}",
            ]


@given(mounts)
def test_round_trip(given_mounts: list[BindMount | VolumeMount | DeviceMount]) -> None:
    """Options written from mounts are read back as the same mounts, in order."""
    options = [option for mount in given_mounts for option in as_options(mount)]
    assert parse_mounts(options) == given_mounts


@given(mounts, mounts)
def test_mounts_do_not_depend_on_each_other(one: list[Mount], two: list[Mount]) -> None:
    """Reading two lists of options together is reading each."""
    first, second = ([option for mount in part for option in as_options(mount)] for part in (one, two))
    assert parse_mounts(first + second) == parse_mounts(first) + parse_mounts(second)


@given(mounts.filter(bool), st.randoms(use_true_random=False))
def test_the_order_of_a_mounts_options_means_nothing(given_mounts: list[Mount], random: Random) -> None:
    """Only ``type=`` must come first."""
    first, *options = as_options(given_mounts[0])
    random.shuffle(options)
    assert parse_mounts([first, *options]) == given_mounts[:1]


@settings(deadline=None)  # the first example imports TorchX
@given(mounts)
def test_torchx_reads_the_same(given_mounts: list[Mount]) -> None:
    """Its own mounts have the same fields and values; but it takes ``readonly=False`` for a yes."""
    options = [option for mount in given_mounts for option in as_options(mount) if option != "readonly=False"]
    theirs = import_module("torchx.specs").parse_mounts(options)
    assert [(type(m).__name__, vars(m)) for m in theirs] == [
        (type(m).__name__, vars(m)) for m in parse_mounts(options)
    ]


words = st.sampled_from(
    ["type=bind", "type=device", "type=", "src=/a", "dst=~", "readonly", "perm=r", "=", ""]
)


@given(st.lists(words | st.text(), max_size=5))
def test_any_options_are_read_or_refused(options: list[str]) -> None:
    """With the position of the first that is wrong, and never otherwise."""
    path = "mounts[0]"
    try:
        parse_mounts(options)
    except InvalidAppError as err:
        path = err.path
    assert path.startswith("mounts[")


@pytest.mark.parametrize(
    "options",
    [
        ["type=bind", "src=/a", "dst=/b", "readonly"],
        ["type=bind", "source=/a", "destination=/b", "read_only"],
        ["type=bind", "source=/a", "target=/b", "readonly=true"],
        ["type=bind", "readonly=1", "dst=/b", "src=/a"],
    ],
)
def test_aliases(options: list[str]) -> None:
    """Every spelling means the same."""
    assert parse_mounts(options) == [BindMount("/a", "/b", read_only=True)]


def test_device_defaults() -> None:
    """A device appears under its own path with all permissions."""
    assert parse_mounts(["type=device", "src=/dev/fuse"]) == [DeviceMount("/dev/fuse", "/dev/fuse", "rwm")]


def test_device_permissions_by_their_long_name() -> None:
    """``permissions`` is ``perm``."""
    assert parse_mounts(["type=device", "src=/d", "permissions=r"]) == [DeviceMount("/d", "/d", "r")]


def test_home_is_expanded_in_the_source_of_a_bind_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """``~`` is for whoever carries the request out: two homes of one user do not make two requests of it."""
    monkeypatch.setenv("HOME", "/home/me")
    assert parse_mounts(["type=bind", "src=~/data", "dst=~/x"]) == [BindMount("~/data", "~/x")]
    assert parse_mounts(["type=volume", "src=~v", "dst=/x"]) == [VolumeMount("~v", "/x")]


def test_values_may_hold_equal_signs() -> None:
    """Only the first ``=`` splits."""
    assert parse_mounts(["type=volume", "src=a=b", "dst=/x=y"]) == [VolumeMount("a=b", "/x=y")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["src=/a"], r"mounts\[0\]: 'src=/a': type must be specified first: bind"),
        (["type=bnd"], r"mounts\[0\]: 'type=bnd': invalid mount type 'bnd', .*did you mean 'bind'\?"),
        (["type"], "invalid mount type '', must be one of bind, volume, device"),
        (["type=bind", "srce=/a"], r"mounts\[1\]: 'srce=/a': unknown mount option .*did you mean 'src'\?"),
        (
            ["type=bind", "Source=/a"],
            r"mounts\[1\]: 'Source=/a': unknown mount option .*did you mean 'src'\?",
        ),
        (["type=bind", ""], r"mounts\[1\]: '': unknown mount option , must be one of type"),
        (
            ["type=bind", "perm=r"],
            r"mounts\[1\]: 'perm=r': not an option of a bind mount; allowed: src, dst, read",
        ),
        (["type=device", "readonly"], "not an option of a device mount; allowed: src, dst, perm"),
        (
            ["type=bind", "src=/a", "source=/b"],
            r"mounts\[2\]: 'source=/b': src is given twice, first at mounts\[1\]",
        ),
        (["type=bind", "src=/a"], r"mounts\[0\]: 'type=bind': needs dst=<value>"),
        (["type=volume", "dst=/a"], r"mounts\[0\]: 'type=volume': needs src=<value>"),
        (["type=device", "src="], r"mounts\[1\]: 'type=device': needs src=<value>"),
        (
            ["type=device", "src=/d", "perm=rx"],
            r"mounts\[2\]: 'perm=rx': expected some of the letters r, w, m",
        ),
        (["type=device", "src=/d", "perm="], "expected some of the letters"),
        (
            ["type=bind", "src=/a", "dst=/b", "readonly=maybe"],
            r"mounts\[3\]: 'readonly=maybe': expected readonly",
        ),
    ],
)
def test_wrong_options(options: list[str], message: str) -> None:
    """The error names the position, quotes what was given and says what is allowed."""
    with pytest.raises(InvalidAppError, match=message):
        parse_mounts(options)


@pytest.mark.parametrize("builtin", [KeyError, ValueError])
@pytest.mark.parametrize("options", [["src=/a"], ["typ=bind"], ["type=bind"], ["type=wrong"]])
def test_wrong_options_are_errors_as_torchx_has_them(options: list[str], builtin: type[Exception]) -> None:
    """Code that catches what TorchX raises catches ours, whose message has no quotes around it."""
    with pytest.raises(builtin) as caught:
        parse_mounts(options)
    assert str(caught.value).startswith("mounts[0]: ")
