"""The operator table as the messages of ListOperators."""

from collections.abc import Collection

from aclgrad.operators.spec import AttributeSpec, InputSpec, OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import DTYPES
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.values import attribute_message


def describe_operator(
    spec: OperatorSpec,
    product: Product,
    shape_only: bool | None = None,
    dtypes: Collection[str] | None = None,
    reads_views: bool = False,
) -> pb.OperatorDescription:
    """Returns the description of an operator as the product serves it; `shape_only` as in `InputSpec.takes_shape`.

    If dtypes are given, only these remain for the leading input. `reads_views` says whether the device gets strided
    inputs as they are.
    """
    inputs = {each.name: _describe_input(each, product, shape_only) for each in spec.inputs}
    if dtypes is not None:
        inputs[spec.leading_input.name].data_types[:] = [DTYPES[name].wire for name in dtypes]
    return pb.OperatorDescription(
        name=spec.name,
        symbol=spec.symbol,
        summary=spec.summary,
        inputs=inputs.values(),
        attributes=[_describe_attribute(each) for each in spec.attributes],
        outputs=[
            pb.OutputDescription(name=each.name, summary=each.rule, stays_inside=each.stays_inside)
            for each in spec.outputs
        ],
        kind=f"OPERATOR_KIND_{spec.kind.name}",
        leading_input=spec.leading_input.name,
        reads_views=reads_views,
    )


def _describe_input(spec: InputSpec, product: Product, shape_only: bool | None) -> pb.InputDescription:
    return pb.InputDescription(
        name=spec.name,
        data_types=[DTYPES[name].wire for name in spec.dtypes[product]],
        ranks=spec.ranks,
        shape_only=spec.takes_shape(product, shape_only),
        needed_for=() if shape_only is False else spec.of_outputs,
        summary=spec.summary,
        may_be_absent=spec.is_optional,
        is_list=spec.is_list,
    )


def _describe_attribute(spec: AttributeSpec) -> pb.AttributeDescription:
    return pb.AttributeDescription(
        name=spec.name,
        kind=f"ATTRIBUTE_KIND_{spec.kind.name}",
        lengths=spec.lengths,
        default_value=None if spec.default is None else attribute_message(spec.name, spec.default),
        minimum=min(spec.minimum) if isinstance(spec.minimum, tuple) else spec.minimum,
        maximum=max(spec.maximum) if isinstance(spec.maximum, tuple) else spec.maximum,
        summary=spec.summary,
        choices=spec.choices,
        may_be_absent=spec.is_optional,
    )
