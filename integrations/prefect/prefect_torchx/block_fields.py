"""Takes in what a block is made from: refuses unknown fields, makes the app a document, hides secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from prefect.types import SecretDict
from pydantic_core import PydanticCustomError

from torchx_core.display.masking import Mask, hide, mask_values, secret_texts
from torchx_core.errors import InvalidAppError, InvalidInputError, NotFoundError, did_you_mean
from torchx_core.launch import AppDocument, to_document
from torchx_core.specs import Role

__all__ = ["our_message", "read_fields"]


@contextmanager
def our_message(mask: Mask = str) -> Iterator[None]:
    """Let pydantic's error say what ours says, and nothing before it.

    Args:
        mask: Hides secrets.
    """
    try:
        yield
    except (InvalidInputError, NotFoundError) as err:
        raise PydanticCustomError("torchx", "{message}", {"message": mask(str(err))}) from None


def read_fields(given: Mapping[str, object], fields: Collection[str]) -> dict[str, object]:
    """Return the fields with which pydantic is to make the block.

    Args:
        given: What the user gave, or Prefect has saved; not changed.
        fields: Those of the block.

    Raises:
        InvalidInputError: A field is unknown, or the secrets are no map.
        PydanticCustomError: The app is none.
    """
    _refuse_unknown(given, fields)
    values = dict(given)
    if (app := values.get("app")) is not None:
        with our_message(_mask_for(app)):
            values["app"] = _document(app)
    secrets = _plain_secrets(values.get("secrets"))
    for name in ("app", "component_args", "cfg"):
        values[name] = hide(values.get(name), secrets, words=name != "app")
    return values | {"secrets": SecretDict(secrets)}


def _refuse_unknown(names: Iterable[str], fields: Collection[str]) -> None:
    """Refuse what no field has: a block would keep it without a word, also a misspelt option."""
    for name in names:
        is_prefects = name == "block_type_slug" or name.startswith("_")
        if name not in fields and not is_prefects:
            known = ", ".join(fields)
            raise InvalidInputError(f"unknown field {name!r}; known: {known}{did_you_mean(name, fields)}")


def _mask_for(app: object) -> Mask:
    """Return what hides the secrets of an app that is none."""
    found: dict[str, object] = {}
    hide(app, found)
    return mask_values(secret_texts(found))


def _document(app: object) -> AppDocument:
    for index, role in enumerate(getattr(app, "roles", ())):
        if isinstance(role, Role) and type(role).pre_proc is not Role.pre_proc:
            problem = "is code, which a block cannot save; use run_app"
            raise InvalidAppError(f"roles[{index}].pre_proc", problem)
    document = to_document(app)
    if isinstance(document, str):
        raise InvalidAppError("app", _problem(document))
    return document


def _problem(text: str) -> str:
    """Say what is wrong with a text that is no map in YAML, without a word of it: any may be a secret."""
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        return f"not YAML: line {mark.line + 1}, column {mark.column + 1}" if mark else "not YAML"
    return f"must be a map, not {type(found).__name__}"


def _plain_secrets(given: object) -> dict[str, object]:
    """Return a copy of the secrets, whether or not an object of Prefect's holds them."""
    plain = given.get_secret_value() if isinstance(given, SecretDict) else given or {}
    if not isinstance(plain, Mapping):
        raise InvalidInputError(f"secrets must be a map of names to values, not {type(plain).__name__}")
    return dict(plain)
