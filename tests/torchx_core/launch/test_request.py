from __future__ import annotations

from torchx_core.launch import AppRequest, Target, make_cfg
from torchx_core.runner import get_runner
from torchx_core.specs import AppDef, Role, runopts

APP = AppDef("a", [Role("r", image="", entrypoint="echo")])


def _options() -> runopts:
    opts = runopts()
    opts.add("number", type_=float, help="")
    opts.add("text", type_=str, help="")
    opts.add("lease_s", type_=float, help="")
    return opts


def test_rendered_options_get_their_types() -> None:
    """A template gives a text; the scheduler gets the number it wants."""
    assert make_cfg({"number": "1.5", "text": "2"}, _options()) == {"number": 1.5, "text": "2"}


def test_lease_and_deadline_are_added_where_the_user_set_none() -> None:
    """The operator's defaults never replace what the user wrote."""
    with get_runner() as runner:
        some = Target(cfgs=("grace_s=1",))
        added = AppRequest.make(runner, APP, some, lease_s=60.0, deadline=9e9)
        own = Target(cfgs=({"lease_s": 5.0},))
        kept = AppRequest.make(runner, APP, own, lease_s=60.0, deadline=None)
    assert (added.lease_s, added.cfg["deadline"], added.cfg["grace_s"]) == (60.0, 9e9, 1.0)
    assert (kept.lease_s, kept.cfg["deadline"]) == (5.0, None)
