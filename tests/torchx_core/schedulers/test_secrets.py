"""Secrets stay out of what people see."""

from __future__ import annotations

import pytest

from torchx_core.schedulers.secrets import looks_secret, mask_env, secret_parts


@pytest.mark.parametrize(
    "name",
    [
        "WANDB_API_KEY",
        "aws_secret_access_key",
        "DB_PASSWORD",
        "DB_PASS",
        "GITHUB_TOKEN",
        "PREFECT_API_AUTH_STRING",
        "AIRFLOW__CORE__FERNET_KEY",
        "SLACK_WEBHOOK_URL",
    ],
)
def test_names_of_secrets_are_recognised(name: str) -> None:
    """Names of secrets are recognised in upper and in lower case."""
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "KEYBOARD",
        "MONKEY",
        "HOME",
        "PASS_RATE",
        "TOKENIZERS_PARALLELISM",
        "TOKENIZER",
        "MAX_TOKENS",
        "MAX_NEW_TOKENS",
        "NUM_TOKENS_PER_BATCH",
    ],
)
def test_ordinary_names_are_shown(name: str) -> None:
    """Values with ordinary names are shown: a mask over everything would tell nothing."""
    assert not looks_secret(name)


def test_only_values_are_masked() -> None:
    """The names of secrets may be seen, their values may not."""
    assert mask_env({"HOME": "/root", "HF_TOKEN": "hf_x"}) == {"HOME": "/root", "HF_TOKEN": "***"}


@pytest.mark.parametrize(
    ("value", "shown", "passwords"),
    [
        ("postgresql://ann:sesame@db:5432/runs", "postgresql://ann:***@db:5432/runs", ["sesame"]),
        ("redis://:sesame@cache", "redis://:***@cache", ["sesame"]),
        ("amqp://a:one@x,amqp://b:two@y", "amqp://a:***@x,amqp://b:***@y", ["one", "two"]),
        ("https://example.org:8080/a@b", "https://example.org:8080/a@b", []),
        ("ann@example.org:data", "ann@example.org:data", []),
    ],
)
def test_the_password_in_a_url_is_a_secret_whatever_the_variables_name(
    value: str, shown: str, passwords: list[str]
) -> None:
    """Of a URL with a password everything is shown but the password."""
    assert mask_env({"DATABASE_URL": value}) == {"DATABASE_URL": shown}
    assert secret_parts("DATABASE_URL", value) == passwords
