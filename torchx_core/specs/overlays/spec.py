"""What a scheduler's author says about the overlays that the scheduler takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from torchx_core.errors import InvalidInputError
from torchx_core.specs.app import AppDef, Role
from torchx_core.specs.overlays.operators import read_key
from torchx_core.specs.overlays.plain import as_overlay
from torchx_core.specs.overlays.storage import get_overlay, set_overlay

__all__ = ["OverlaySpec", "validate_overlay"]


@dataclass(frozen=True)
class OverlaySpec:
    """One kind of overlay: where it is kept, and what users must set on the app or role instead.

    Args:
        namespace: Of the scheduler, for example ``kubernetes``.
        kind: What it is laid over, for example ``V1Pod``.
        blocklist: Fields that no overlay may have; `set` and `get` refuse them.

    Example:
        >>> pod = OverlaySpec("kubernetes", "V1Pod", blocklist=("command",))
        >>> role = Role("trainer", "img", entrypoint="train.py")
        >>> pod.set(role, {"hostNetwork": True})
        >>> pod.get(role)
        {'hostNetwork': True}
    """

    namespace: str
    kind: str
    blocklist: tuple[str, ...] = ()

    def set(self, target: AppDef | Role, overlay: object) -> None:
        """Attach the overlay, a map or a dataclass; see `set_overlay`.

        Raises:
            InvalidInputError: It has a field of the blocklist, or cannot be stored.
        """
        given = as_overlay(overlay)
        validate_overlay(given, blocklist=self.blocklist, overlay_name=self.kind)
        set_overlay(target, self.namespace, self.kind, given)

    def get(self, target: AppDef | Role) -> dict[str, object]:
        """Return the overlay, ``{}`` for none; what was written without a kind is not taken for this one.

        Raises:
            InvalidInputError: It has a field of the blocklist.
        """
        overlay = get_overlay(target, self.namespace, self.kind, flat_fallback=False)
        validate_overlay(overlay, blocklist=self.blocklist, overlay_name=self.kind)
        return overlay


def validate_overlay(
    overlay: Mapping[str, object],
    *,
    blocklist: Collection[str] | None = None,
    forbidden_keys: Collection[str] | None = None,
    overlay_name: str = "overlay",
    suggestion: str = "",
) -> None:
    """Check the top-level fields of an overlay, whatever their operators.

    Args:
        overlay: What a user attached.
        blocklist: Fields that are set by attributes of the app or role.
        forbidden_keys: Fields that belong into another kind of overlay.
        overlay_name: The kind, for the message.
        suggestion: What to do about `forbidden_keys`.

    Raises:
        InvalidInputError: It has such a field.
    """
    fields = [read_key(key).field for key in overlay]
    if blocked := [f"{overlay_name}.{field}" for field in fields if field in (blocklist or ())]:
        raise InvalidInputError(
            f"an overlay cannot set {', '.join(blocked)}; set it on the role or the app itself"
        )
    if misplaced := [field for field in fields if field in (forbidden_keys or ())]:
        hint = f"; {suggestion}" if suggestion else ""
        raise InvalidInputError(f"{overlay_name} overlay has misplaced fields: {', '.join(misplaced)}{hint}")
