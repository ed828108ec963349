"""The words of a command line become options and varargs."""

from __future__ import annotations

import pytest

from torchx_core.components.words import Words, read_words
from torchx_core.errors import ComponentArgumentError

FLAGS = {
    "-j": "j",
    "--j": "j",
    "--script": "script",
    "--scratch": "scratch",
    "-cn": "config",
    "--config": "config",
}


@pytest.mark.parametrize(
    ("line", "options", "varargs"),
    [
        ("", {}, None),
        ("-j 2x2", {"j": "2x2"}, None),
        ("-j2x2", {"j": "2x2"}, None),
        ("-j=2x2", {"j": "2x2"}, None),
        ("--j=2x2", {"j": "2x2"}, None),
        ("-cn base", {"config": "base"}, None),
        ("--conf base", {"config": "base"}, None),
        ("--script=a --script b", {"script": "b"}, None),
        ("--script=", {"script": ""}, None),
        ("--script=-x", {"script": "-x"}, None),
        ("--script -5", {"script": "-5"}, None),
        ("--script -", {"script": "-"}, None),
        ("--script a=b", {"script": "a=b"}, None),
        ("-j 1 -- --epochs 3", {"j": "1"}, ["--epochs", "3"]),
        ("-j 1 --", {"j": "1"}, []),
        ("-j 1 train.py --j 2 -- x", {"j": "1"}, ["train.py", "--j", "2", "--", "x"]),
        ("-5", {}, ["-5"]),
        ("-", {}, ["-"]),
        ("x --help", {}, ["x", "--help"]),
    ],
)
def test_options_end_at_the_first_other_word(
    line: str, options: dict[str, str], varargs: list[str] | None
) -> None:
    """All spellings of an option work; what follows the options is passed on untouched."""
    assert read_words("c", line.split(), FLAGS) == Words(options, varargs)


def test_a_word_with_a_blank_is_no_flag() -> None:
    """It may be a value or a vararg that merely begins with a dash."""
    assert read_words("c", ["--script", "-a b"], FLAGS) == Words({"script": "-a b"}, None)
    assert read_words("c", ["-a b"], FLAGS) == Words({}, ["-a b"])
    assert read_words("c", ["--lr=a b"], FLAGS) == Words({}, ["--lr=a b"])


@pytest.mark.parametrize("flag", ["--script", "--scri", "-j"])
def test_the_value_of_a_flag_may_have_a_blank(flag: str) -> None:
    """A shortened flag has its value all the same: it does not become a vararg."""
    assert read_words("c", [f"{flag}=a b"], FLAGS) == Words({FLAGS.get(flag, "script"): "a b"}, None)


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_is_asked_for(word: str) -> None:
    """By either word, whatever else there is; what stands before it was read."""
    assert read_words("c", ["-j", "1", word, "--nonsense"], FLAGS) == Words({"j": "1"}, None, help=True)


def test_an_argument_called_h_takes_its_flag() -> None:
    """As in TorchX, ``-h`` then is the argument, and ``--help`` asks for help."""
    assert read_words("c", ["-h", "gpu.small"], {"-h": "h", "--h": "h"}) == Words({"h": "gpu.small"}, None)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--scirpt x", r"component 'c': argument '--scirpt' is unknown; known: .* did you mean '--script'\?"),
        ("-x 1", "argument '-x' is unknown"),
        ("--scr x", "argument '--scr' is ambiguous; it may be --script, --scratch"),
        ("--script", "argument '--script' needs a value; write --script=VALUE if it begins with a dash"),
        ("--script --j 1", "argument '--script' needs a value"),
        ("--script -- x", "argument '--script' needs a value"),
    ],
)
def test_a_wrong_option_is_refused(line: str, why: str) -> None:
    """With what is known, and how to write it."""
    with pytest.raises(ComponentArgumentError, match=why):
        read_words("c", line.split(), FLAGS)
