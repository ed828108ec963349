"""What workflow engines have in common before an app is submitted: where it runs, with what, what it is."""

from torchx_core.launch.cfg import Cfg, make_cfg
from torchx_core.launch.check import check_target, target_options
from torchx_core.launch.document import AppDocument, ComponentArgs, make_app, make_component, to_document
from torchx_core.launch.patience import Patience
from torchx_core.launch.request import AppRequest
from torchx_core.launch.target import DEFAULT_SCHEDULER, Target

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
    "target_options",
    "to_document",
]
