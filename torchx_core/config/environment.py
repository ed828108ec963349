"""The environment variables that stand for options: these, and no others.

=========================== ====================================================================
``TORCHX_SCHEDULER``        the scheduler to use, over ``[cli:run]``
``TORCHX_CFG_<SCHEDULER>``  options of that scheduler, over its section: ``KEY=VALUE,KEY=VALUE``
=========================== ====================================================================

``<SCHEDULER>`` is the scheduler's name in upper case, each character that is no letter or digit as ``_``:
``TORCHX_CFG_LOCAL_CWD``. (``TORCHXCONFIG``, which names a file, is read in `files`.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from torchx_core.compat import PREFIX
from torchx_core.config.sections import TORCHX_SCHEDULERS
from torchx_core.config.settings import Origin
from torchx_core.errors import did_you_mean

__all__ = ["ENV_SCHEDULER", "check_environment", "select_environment", "variable_of"]

ENV_SCHEDULER: Final = "TORCHX_SCHEDULER"
_PREFIX: Final = "TORCHX_CFG_"


def variable_of(scheduler: str) -> str:
    """Return the name of the variable with that scheduler's options.

    Example:
        >>> variable_of("local_cwd")
        'TORCHX_CFG_LOCAL_CWD'
    """
    return _PREFIX + re.sub("[^A-Z0-9]", "_", scheduler.upper())


def select_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those variables that are options; one set to nothing counts as not set."""
    return {k: v for k, v in environ.items() if v and (k == ENV_SCHEDULER or k.startswith(_PREFIX))}


def check_environment(environ: Mapping[str, str], schedulers: Iterable[str]) -> None:
    """Refuse options for a scheduler that does not exist.

    Args:
        environ: What `select_environment` returned.
        schedulers: The known ones; looked through for an unusual name only.

    Raises:
        InvalidConfigError: With the closest variable.
    """
    of_torchx = {variable_of(prefix + name) for name in TORCHX_SCHEDULERS for prefix in ("", PREFIX)}
    for name in environ.keys() - of_torchx - {ENV_SCHEDULER}:
        known = [variable_of(scheduler) for scheduler in schedulers]
        if name not in known:
            hint = did_you_mean(name, known)
            raise Origin(source=f"${name}").error(
                f"options for a scheduler that is not known; known: {', '.join(known)}{hint}"
            )
