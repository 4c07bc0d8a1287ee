"""A server's list of its operators. A newer server may list more than this client knows; nothing of it is lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aclgrad.operators.spec import AttributeKind, OperatorKind
from aclgrad.tensors import DType, dtype_of_wire
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.values import AttributeValue, attribute_value

_KINDS: Final = {pb.AttributeKind.Value(f"ATTRIBUTE_KIND_{kind.name}"): kind for kind in AttributeKind}
_OPERATOR_KINDS: Final = {pb.OperatorKind.Value(f"OPERATOR_KIND_{kind.name}"): kind for kind in OperatorKind}


@dataclass(frozen=True, slots=True)
class InputDescription:
    """One input of an operator.

    `dtypes` are those that the server's product takes, `ranks` the numbers of dimensions. With `shape_only` a shape may
    stand for the array, also in calls that want no output of `needed_for`, if there are such; one that is `optional`
    may be left out; a list stands for several arrays. `unknown_dtypes` are the numbers of dtypes that this client does
    not know.
    """

    name: str
    dtypes: tuple[DType, ...]
    ranks: tuple[int, ...]
    shape_only: bool
    summary: str
    unknown_dtypes: tuple[int, ...] = ()
    optional: bool = False
    needed_for: tuple[str, ...] = ()
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class AttributeDescription:
    """One attribute of an operator.

    `kind` is None if this client does not know it. `lengths` says how many values a list may have; it is empty if the
    attribute is no list. `choices` are the possible texts or data types. `minimum` and `maximum` bound each value. An
    attribute that is not `required` has a `default`, or the operator does without it.
    """

    name: str
    kind: AttributeKind | None
    lengths: tuple[int, ...]
    required: bool
    default: AttributeValue | None
    minimum: float | None
    maximum: float | None
    summary: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputDescription:
    """One output of an operator; `summary` has the rule for its shape and dtype.

    One that `stays_inside` has a form of the device's own: later steps of a program may use it, and nobody gets it.
    """

    name: str
    summary: str
    stays_inside: bool = False


@dataclass(frozen=True, slots=True)
class OperatorDescription:
    """One operator of a server: its name on the wire, CANN's function for it, and what it takes and returns.

    `kind` says whether its results are gradients or values, or is None if this client does not know it. `leading` names
    the input whose dtype and layout a call has.
    `reads_views` says whether the device gets transposed inputs and slices as they are: otherwise they are copied
    there first.
    """

    name: str
    symbol: str
    summary: str
    inputs: tuple[InputDescription, ...]
    attributes: tuple[AttributeDescription, ...]
    outputs: tuple[OutputDescription, ...]
    kind: OperatorKind | None
    leading: str
    reads_views: bool = False


def operators_of(message: pb.ListOperatorsResponse) -> list[OperatorDescription]:
    """Returns the operators of a server's answer, in its order."""
    return [
        OperatorDescription(
            each.name,
            each.symbol,
            each.summary,
            tuple(map(_input, each.inputs)),
            tuple(map(_attribute, each.attributes)),
            tuple(OutputDescription(output.name, output.summary, output.stays_inside) for output in each.outputs),
            _OPERATOR_KINDS.get(each.kind),
            each.leading_input,
            each.reads_views,
        )
        for each in message.operators
    ]


def _input(message: pb.InputDescription) -> InputDescription:
    numbers: Sequence[int] = message.data_types
    dtypes = [(number, dtype_of_wire(number)) for number in numbers]
    return InputDescription(
        message.name,
        tuple(dtype for _, dtype in dtypes if dtype is not None),
        tuple(message.ranks),
        message.shape_only,
        message.summary,
        tuple(number for number, dtype in dtypes if dtype is None),
        message.may_be_absent,
        tuple(message.needed_for),
        message.is_list,
    )


def _attribute(message: pb.AttributeDescription) -> AttributeDescription:
    has_known_default = message.HasField("default_value") and message.default_value.WhichOneof("value")
    return AttributeDescription(
        message.name,
        _KINDS.get(message.kind),
        tuple(message.lengths),
        not message.HasField("default_value") and not message.may_be_absent,
        attribute_value(message.name, message.default_value) if has_known_default else None,
        message.minimum if message.HasField("minimum") else None,
        message.maximum if message.HasField("maximum") else None,
        message.summary,
        tuple(message.choices),
    )
