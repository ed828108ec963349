"""What workflow engines have in common before an app is submitted: where it runs, with what, what it is."""

from torchx_core.launch.document import (
    AppDocument,
    AppRequest,
    ComponentArgs,
    make_app,
    make_component,
    to_document,
)
from torchx_core.launch.patience import Patience
from torchx_core.launch.target import (
    DEFAULT_SCHEDULER,
    Cfg,
    Target,
    check_target,
    make_cfg,
    runs_on_this_host,
    target_options,
)

__all__ = [
    "DEFAULT_SCHEDULER",
    "AppDocument",
    "AppRequest",
    "Cfg",
    "ComponentArgs",
    "Patience",
    "Target",
    "check_target",
    "make_app",
    "make_cfg",
    "make_component",
    "runs_on_this_host",
    "target_options",
    "to_document",
]
