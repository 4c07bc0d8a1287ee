"""A call that is known to be legal, in the form that devices take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aclgrad.operators.spec import OperatorSpec
from aclgrad.operators.values import ValueRule
from aclgrad.tensors import Announced, SharedRange, TensorType, TensorView
from aclgrad.wire.messages import AttributeValue

Source = type[Announced] | type[SharedRange]
"""Where bytes come from that are not in the message: chunks, or shared memory."""
EMPTY: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """A call that is known to be legal; inputs and attributes stand in aclnn order."""

    spec: OperatorSpec
    inputs: tuple[TensorView, ...]
    rules: tuple[ValueRule | None, ...]
    attributes: tuple[AttributeValue, ...]
    output: TensorType
    output_bytes: int
    size_bytes: int
    """What the tensors take on the device."""
    is_empty: bool
    """Whether an input has no elements: operators leave the output untouched then."""
    uses_shared_memory: bool
    reply_prefix: bytes
    """What stands before the output's data in an ExecuteOperatorResponse."""
    output_memory: SharedRange | None = None
    """Where the output is to go, unless into the response."""
    prepared: Any = None
    """The plan in the form that the device takes."""

    def with_prepared(self, prepared: Any) -> "OperatorPlan":
        """Returns the same plan with what a device has made of it."""
        return replace(self, prepared=prepared)

    def contents(self, payloads: Sequence[memoryview], staged: Mapping[str, Any] = EMPTY) -> list[Any]:
        """Returns where the bytes of each input are: staged, in the call's message, or nowhere (None)."""
        return [
            staged[tensor.name] if tensor.name in staged else _content(tensor.data, payloads) for tensor in self.inputs
        ]

    def inputs_in(self, source: Source) -> list[tuple[TensorView, bool]]:
        """Returns the inputs whose bytes come from there, and whether each has values to be checked."""
        return [
            (tensor, rule is not None)
            for tensor, rule in zip(self.inputs, self.rules, strict=True)
            if isinstance(tensor.data, source)
        ]

    @property
    def reply_bytes(self) -> int:
        """The size of the ExecuteOperatorResponse."""
        return len(self.reply_prefix) + self.output_bytes


def _content(data: memoryview | Announced | SharedRange | None, payloads: Sequence[memoryview]) -> memoryview | None:
    if isinstance(data, Announced):
        return payloads[data.index]
    return data if isinstance(data, memoryview) else None
