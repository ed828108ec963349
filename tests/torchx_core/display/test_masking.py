from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from local_apps import app_of

from torchx_core.display.masking import (
    hide,
    make_mask,
    mask_status,
    mask_texts,
    mask_values,
    reveal,
    secret_texts,
)
from torchx_core.errors import InvalidInputError
from torchx_core.schedulers.secrets import MASK
from torchx_core.specs import AppState, AppStatus, LastLines, ReplicaStatus, RoleStatus


def test_secrets_of_the_app_are_masked() -> None:
    """The value of a variable that looks like a secret is not shown, nor a line of it; others are."""
    app = app_of(
        "true", env={"API_TOKEN": "hunter2\nsecond", "DB_PASSWORD": "hunter2-and-more", "HOME": "/root"}
    )
    mask = make_mask(app)
    assert mask("it is hunter2-and-more, second to /root") == "it is ***, *** to /root"


def test_a_models_settings_are_no_secrets() -> None:
    """Hugging Face has everybody set the first one; every ``false`` of the log would be hidden."""
    env = {"TOKENIZERS_PARALLELISM": "false", "MAX_TOKENS": "100000"}
    line = '{"converged": false, "tokens": 100000}'
    assert make_mask(app_of("true", env=env))(line) == line


def test_short_values_are_no_secrets() -> None:
    """Masking "1" would make every log unreadable."""
    assert make_mask(app_of("true", env={"USE_TOKEN": "1"}))("1 of 10") == "1 of 10"


def test_secrets_in_json_are_masked() -> None:
    """However it writes them; it stays JSON."""
    secret = 'pass"wörd'  # noqa: S105
    mask = mask_values([secret])
    for text in (json.dumps([secret]), json.dumps([secret], ensure_ascii=False)):
        assert json.loads(mask(text)) == ["***"]


def test_what_a_program_has_said_in_a_status_is_masked() -> None:
    """Its error file, its result, and the scheduler's messages; names and numbers stay."""
    error = json.dumps({"message": {"message": "bad hunter2"}})
    replica = ReplicaStatus(0, AppState.FAILED, "r", "host", error, exit_code=3, msg="hunter2")
    status = AppStatus(
        AppState.FAILED, msg="hunter2", roles=[RoleStatus("r", [replica])], result={"hunter2": ["hunter2", 1]}
    )
    masked = mask_status(status, mask_values(["hunter2"]))
    assert "hunter2" not in str(masked.to_json())
    assert masked.result == {"***": ["***", 1]}
    assert json.loads(masked.roles[0].replicas[0].structured_error_msg) == {"message": {"message": "bad ***"}}
    assert masked.roles[0].replicas[0].exit_code == 3
    assert status.msg == "hunter2"


def test_last_lines_are_masked_before_they_are_cut() -> None:
    """Half a secret would not be recognised; the status that was masked keeps its own."""
    replica = ReplicaStatus(0, AppState.FAILED, "r", "h", exit_code=3)
    status = AppStatus(AppState.FAILED, roles=[RoleStatus("r", [replica])])
    status.last_lines = lambda _: LastLines(["x" * 195 + "hunter2-and-more"], [])
    masked = mask_status(status, mask_values(["hunter2-and-more"]))
    assert masked.failure_summary().endswith("x***")
    assert "hunte" in status.failure_summary()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            {"roles": [{"env": {"API_KEY": "x", "HOME": "/"}}]},
            {"roles": [{"env": {"API_KEY": "<>", "HOME": "/"}}]},
        ),
        ({"HF_TOKEN": ""}, {"HF_TOKEN": "<>"}),
        ({"HF_TOKENS": ["x", "y"]}, {"HF_TOKENS": ["<>", "<>"]}),
        ({"args": ["--api-key=x", "--msg=hello"]}, {"args": ["<>", "--msg=hello"]}),
        (
            {"args": ["--tokenizer", "bert", "--tokenizer=bert"]},
            {"args": ["--tokenizer", "bert", "--tokenizer=bert"]},
        ),
        ({"args": []}, {"args": []}),
        ({"tokens": 5, "password": None}, {"tokens": 5, "password": None}),
        ("HF_TOKEN=x", "HF_TOKEN=x"),
        (["HF_TOKEN=x"], ["HF_TOKEN=x"]),
        (None, None),
    ],
)
def test_a_text_is_hidden_by_its_key(value: Any, shown: Any) -> None:
    """However deep it lies; numbers, and texts without such a key, are no secrets."""
    assert _named(hide(value, {})) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (["--env", "A=1,HF_TOKEN=x"], ["--env", "<>"]),
        (["--api-key=x", "--msg", "hello"], ["<>", "--msg", "hello"]),
        (["--api-key", "x", "y", "-password", "z"], ["--api-key", "<>", "y", "-password", "<>"]),
        (["--use-token", "--verbose", 5], ["--use-token", "--verbose", 5]),
        (["api-key", "x"], ["api-key", "x"]),
        ("grace_s=5,env=WANDB_API_KEY:x", "<>"),
        ({"env": "HF_TOKEN=x"}, {"env": "<>"}),
        ("log_dir=/secret/token", "log_dir=/secret/token"),
        (["echo $TOKEN"], ["echo $TOKEN"]),
    ],
)
def test_words_are_hidden_by_what_they_assign_to(value: Any, shown: Any) -> None:
    """A word is hidden as a whole, for what it assigns to, or for the option before it."""
    assert _named(hide(value, {}, words=True)) == shown


def test_what_was_hidden_comes_back() -> None:
    """Equal names with different values do not get mixed up, and equal values share a name."""
    value = {"a": [{"TOKEN": "1"}, {"TOKEN": "2"}, {"TOKEN": "1"}], "b": "x"}
    secrets: dict[str, Any] = {"TOKEN-2": "of somebody else"}
    hidden = hide(value, secrets)
    assert hidden == {
        "a": [
            {"TOKEN": {"$secret": "TOKEN"}},
            {"TOKEN": {"$secret": "TOKEN-3"}},
            {"TOKEN": {"$secret": "TOKEN"}},
        ],
        "b": "x",
    }
    assert secrets == {"TOKEN": "1", "TOKEN-2": "of somebody else", "TOKEN-3": "2"}
    assert reveal(hidden, secrets) == value


def test_what_is_hidden_stays_as_it_is() -> None:
    """A saved block is loaded with references; they are not taken for secrets themselves."""
    secrets: dict[str, Any] = {"TOKEN": "1"}
    hidden = {"env": {"TOKEN": {"$secret": "TOKEN"}}}
    assert (hide(hidden, secrets, words=True), secrets) == (hidden, {"TOKEN": "1"})


@pytest.mark.parametrize(
    ("word", "texts"),
    [
        ("--hf-token=sesame", {"sesame"}),
        ("A=1,HF_TOKEN=sesame,B=2", {"sesame", "sesame,B=2"}),
        ("HF_TOKEN=sesame python train.py", {"sesame", "sesame python train.py"}),
        ("env=API_KEY:a=b", {"a=b"}),
        ("sesame=open", set[str]()),
    ],
)
def test_what_a_word_assigns_is_not_shown_either(word: str, texts: set[str]) -> None:
    """An app prints its token, not the option that it was given with."""
    assert set(secret_texts({"any": word})) == {word} | texts


def test_the_given_value_is_not_changed() -> None:
    """The caller's map still has its secret."""
    value = {"env": {"TOKEN": "1"}}
    hide(value, {})
    assert value == {"env": {"TOKEN": "1"}}


def test_an_unknown_secret_is_named() -> None:
    """A reference that somebody wrote by hand, with a typing error, leads to what he meant."""
    with pytest.raises(
        InvalidInputError, match="unknown secret 'HF_TOKNE'; known: HF_TOKEN; did you mean 'HF_TOKEN'"
    ):
        reveal({"env": {"X": {"$secret": "HF_TOKNE"}}}, {"HF_TOKEN": "1"})


def _named(value: Any) -> Any:
    """Write every reference as ``<>``."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        named = {key: _named(item) for key, item in fields.items()}
        return "<>" if set(fields) == {"$secret"} else named
    return [_named(item) for item in cast("Sequence[Any]", value)] if isinstance(value, list) else value


def test_names_of_our_own_fields_stay_as_they_are() -> None:
    """A secret may be a word that we use as well: who reads a document has to find its fields."""
    mask = mask_values(["replicas"])
    document = {"replicas": [{"msg": "2 replicas failed"}]}
    assert mask_texts(document, mask, keys=False) == {"replicas": [{"msg": f"2 {MASK} failed"}]}
    assert mask_texts(document, mask) == {MASK: [{"msg": f"2 {MASK} failed"}]}
