"""Names for what schedulers read from ``Resource.capabilities``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from torchx_core.errors import InvalidAppTypeError
from torchx_core.specs.resource import Resource

__all__ = ["CapabilityKey"]

V = TypeVar("V")


@dataclass(frozen=True)
class CapabilityKey(Generic[V]):
    """A capability whose name and type are written down once, by whoever interprets it.

    Args:
        namespace: Who defines it: a cloud provider, a scheduler.
        name: Its name there.
        type: What `get` expects to find.

    Example:
        >>> BANDWIDTH = CapabilityKey("aws", "network_bandwidth_gbps", int)
        >>> resource = Resource(cpu=4, gpu=0, memMB=1024)
        >>> BANDWIDTH.set(resource, 400)
        >>> resource.capabilities
        {'aws.network_bandwidth_gbps': 400}
        >>> BANDWIDTH.get(resource)
        400
    """

    namespace: str
    name: str
    type: type[V]

    @property
    def key(self) -> str:
        """The key in ``Resource.capabilities``: ``namespace.name``."""
        return f"{self.namespace}.{self.name}"

    def set(self, resource: Resource, value: V) -> None:
        """Give the resource this capability."""
        resource.capabilities[self.key] = value

    @overload
    def get(self, resource: Resource) -> V | None: ...

    @overload
    def get(self, resource: Resource, default: V) -> V: ...

    def get(self, resource: Resource, default: V | None = None) -> V | None:
        """Return the resource's value, or the default where it has none.

        Raises:
            InvalidAppTypeError: The value is of another type; a bool is no int.
        """
        if self.key not in resource.capabilities:
            return default
        value = resource.capabilities[self.key]
        if not isinstance(value, self.type) or (isinstance(value, bool) and self.type is int):
            raise InvalidAppTypeError(
                f"resource.capabilities[{self.key!r}]",
                f"expected `{self.type.__name__}`, got `{type(value).__name__}`: {value!r}",
            )
        return value
