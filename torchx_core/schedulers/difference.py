"""Says in what two requests, or any two JSON values, differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from torchx_core.schedulers.earlier_requests import REQUEST_FORMAT, in_present_words
from torchx_core.schedulers.option_values import of_the_app
from torchx_core.schedulers.secrets import MASK, looks_secret, mask_value
from torchx_core.settings import (
    ENV_TORCHX_METRIC_SINKS,
    ENV_TORCHX_PARENT_RUN_ID,
    ENV_TORCHX_REPLICA,
    ENV_TORCHX_ROLE,
    ENV_TRACE_CONTEXT,
)
from torchx_core.specs import AppDef, CfgVal, runopts

__all__ = ["comparable_request", "differences", "request_differences"]

_SURROUNDINGS = {
    ENV_TORCHX_PARENT_RUN_ID,
    ENV_TORCHX_METRIC_SINKS,
    ENV_TORCHX_ROLE,
    ENV_TORCHX_REPLICA,
    *ENV_TRACE_CONTEXT,
}
"""On whose behalf an app was submitted, and where its metrics and spans go: no part of what was asked for."""
_MOST = 10
_ABSENT = object()


def comparable_request(app: AppDef, cfg: Mapping[str, CfgVal]) -> dict[str, object]:
    """Return what makes two submits the same request."""
    return {"app": app.to_dict(), "cfg": of_the_app(cfg), **REQUEST_FORMAT}


def request_differences(
    stored: Mapping[str, object],
    asked: Mapping[str, object],
    opts: runopts,
    former: Mapping[str, CfgVal] | None = None,
) -> list[str]:
    """Return how what is asked for now differs from what was asked for under the same app id.

    The parent run does not count, nor do metric sinks and the span of the submit: they come from the
    submitter's surroundings, and the same request may be repeated by another shell, or by a retry with a
    parent of its own. Nor does it count that an earlier release wrote the same request down in other words
    (`in_present_words`).

    Args:
        stored: A map whose ``app`` is `AppDef.to_dict`; of the submit that came first.
        asked: The same, of this one.
        opts: The scheduler's options.
        former: What an option meant before there was one, where that is not its default.
    """
    return differences(_compared(in_present_words(stored, asked, opts, former)), _compared(asked))


def differences(stored: object, given: object) -> list[str]:
    """Return ``path: stored -> given`` for the first few differences; secrets are masked.

    Example:
        >>> differences({"a": [1, 2]}, {"a": [1, 3]})
        ['a[1]: 2 -> 3']
    """
    found = [f"{path}: {_show(path, a)} -> {_show(path, b)}" for path, a, b in _walk("", stored, given)]
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return found[:_MOST] + more


def _compared(asked: Mapping[str, object]) -> dict[str, object]:
    """Return what of the request counts."""
    compared = {name: value for name, value in asked.items() if name not in REQUEST_FORMAT}
    app = asked.get("app")
    if not isinstance(app, Mapping):
        return compared
    document = cast("Mapping[str, object]", app)
    roles = document.get("roles")
    if not isinstance(roles, list):
        return compared  # a record is damaged: it differs from whatever is asked for
    counted = [_without_surroundings(role) for role in cast("list[object]", roles)]
    compared["app"] = {**document, "roles": counted}
    return compared


def _without_surroundings(role: object) -> object:
    """Return the role without its submitter's surroundings; what is no role, if damaged, as it is."""
    if not isinstance(role, Mapping):
        return role
    fields = cast("Mapping[str, object]", role)
    env = fields.get("env")
    if not isinstance(env, Mapping):
        return fields
    variables = cast("Mapping[str, object]", env)
    return {
        **fields,
        "env": {name: value for name, value in variables.items() if name not in _SURROUNDINGS},
    }


def _walk(path: str, a: object, b: object) -> Iterator[tuple[str, object, object]]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        left, right = cast("Mapping[str, object]", a), cast("Mapping[str, object]", b)
        for key in sorted({*left, *right}):
            yield from _walk(f"{path}.{key}".lstrip("."), left.get(key, _ABSENT), right.get(key, _ABSENT))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
        one, two = cast("Sequence[object]", a), cast("Sequence[object]", b)
        for i in range(max(len(one), len(two))):
            yield from _walk(f"{path}[{i}]", _at(one, i), _at(two, i))
    elif a != b:
        yield path, a, b


def _at(values: Sequence[object], i: int) -> object:
    return values[i] if i < len(values) else _ABSENT


def _show(path: str, value: object) -> str:
    if value is _ABSENT:
        return "absent"
    name = path.rpartition(".")[2]
    return MASK if looks_secret(name) else mask_value(name, repr(value))
