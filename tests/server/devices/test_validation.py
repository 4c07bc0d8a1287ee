"""What is wrong with a call is said before a device sees it."""

import math
import re
from dataclasses import replace

import pytest

from aclgrad import errors
from aclgrad.operators.cases import first_cases, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.products import PACES, Pace, Product
from aclgrad.sources import InChunks
from aclgrad.tensors import TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.values import AttributeValue
from aclgrad_server.devices.plan import Limits, plan_call
from aclgrad_server.devices.planning import check_reply_size
from aclgrad_server.limits import GROUP_S
from tests.server.sent import NO_LIMIT, tensor

POOLING = "adaptive_avg_pool2d_backward"
GRAD = tensor("grad_output", 1, 2, 2, data=bytes(16))
SELF = tensor("self", 1, 4, 4)


def pooling(*inputs: TensorView, attributes: dict[str, AttributeValue] | None = None) -> OperatorCall:
    return OperatorCall(POOLING, inputs, attributes or {})


def test_a_plan_has_the_inputs_in_the_operators_order() -> None:
    for typed in first_cases(Product.ATLAS_A2):
        views = tuple(view_of_array(name, array) for name, array in typed.arrays().items())
        call = OperatorCall(typed.spec.name, views[::-1], typed.case.attributes)
        plan = plan_call(call, Product.ATLAS_A2, Limits(NO_LIMIT))
        assert tuple(filter(None, plan.types)) == tuple(view.type for view in views), str(typed)
        # Positions may be of another type on the device; everything else is there as it was sent.
        pairs = zip(plan.types, plan.rules, strict=True)
        as_sent = sum(type.size_bytes for type, rule in pairs if type is not None and rule is None)
        assert plan.size_bytes >= plan.output_bytes + as_sent, str(typed)


MASK = "max_pool2d_with_mask_backward"
ARGMAX = tensor("indices", 1, 2, 2, dtype="int32", data=bytes(16))
POOLED = tensor("grad_output", 1, 1, 1, data=bytes(4))
BAD_FIELDS = {
    "missing_input": (pooling(GRAD), ["inputs[self]"]),
    "no_inputs": (pooling(), ["inputs[grad_output]", "inputs[self]"]),
    "misnamed_input": (pooling(GRAD, tensor("input", 1, 4, 4)), ["inputs[input]"]),
    "extra_input": (pooling(GRAD, SELF, tensor("mask", 1)), ["inputs[mask]"]),
    "repeated_input": (pooling(GRAD, SELF, SELF), ["inputs[self]"]),
    "unknown_attribute": (pooling(GRAD, SELF, attributes={"stride": 2}), ["attributes[stride]"]),
    "wrong_dtype": (
        pooling(tensor("grad_output", 1, 2, 2, dtype="int8", data=bytes(4)), SELF),
        ["inputs[grad_output].data_type"],
    ),
    "both_of_a_wrong_dtype": (
        pooling(tensor("grad_output", 1, 1, 1, dtype="float64"), tensor("self", 1, 4, 4, dtype="float64")),
        ["inputs[grad_output].data_type", "inputs[self].data_type"],
    ),
    "dtypes_differ": (pooling(GRAD, tensor("self", 1, 4, 4, dtype="float16")), ["inputs[self].data_type"]),
    "low_rank": (pooling(GRAD, tensor("self", 4, 4)), ["inputs[self].shape"]),
    "scalar": (pooling(tensor("grad_output", data=bytes(4)), SELF), ["inputs[grad_output].shape"]),
    "high_rank": (pooling(GRAD, tensor("self", 1, 1, 1, 4, 4)), ["inputs[self].shape"]),
    "ranks_differ": (pooling(GRAD, tensor("self", 1, 1, 4, 4)), ["inputs[self].shape"]),
    "channels_differ": (pooling(GRAD, tensor("self", 2, 4, 4)), ["inputs[self].shape"]),
    "negative_size": (pooling(GRAD, tensor("self", 1, -4, 4)), ["inputs[self].shape"]),
    "negative_sizes": (pooling(GRAD, tensor("self", 1, -4, -4)), ["inputs[self].shape"]),
    "product_overflows": (pooling(GRAD, tensor("self", 1, 2**62, 2)), ["inputs[self].shape"]),
    "product_wraps_to_small": (pooling(GRAD, tensor("self", 1, 2**32, 2**32)), ["inputs[self].shape"]),
    "product_overflows_beside_zero": (
        pooling(tensor("grad_output", 0, 1, 1, data=b""), tensor("self", 0, 2**40, 2**40)),
        ["inputs[self].shape"],
    ),
    "short_data": (pooling(tensor("grad_output", 1, 2, 2, data=bytes(15)), SELF), ["inputs[grad_output].data"]),
    "long_data": (pooling(tensor("grad_output", 1, 2, 2, data=bytes(17)), SELF), ["inputs[grad_output].data"]),
    "no_bytes": (pooling(tensor("grad_output", 1, 2, 2, data=b""), SELF), ["inputs[grad_output].data"]),
    "bytes_for_an_empty_tensor": (
        pooling(tensor("grad_output", 0, 2, 2, data=b"1234"), tensor("self", 0, 4, 4)),
        ["inputs[grad_output].data"],
    ),
    "data_of_an_unread_input": (pooling(GRAD, tensor("self", 1, 4, 4, data=bytes(3))), ["inputs[self].data"]),
    "values_missing": (pooling(tensor("grad_output", 1, 2, 2), SELF), ["inputs[grad_output].data"]),
    "several_at_once": (
        pooling(tensor("grad_output", 2, 2, data=bytes(16)), tensor("self", 1, -1, 4)),
        ["inputs[grad_output].shape", "inputs[self].shape"],
    ),
    "padded": (
        OperatorCall("replication_pad2d_backward", (tensor("grad_output", 1, 9, 9), SELF), {"padding": (1, 1, 1, 1)}),
        ["inputs[grad_output].shape"],
    ),
    "unpooled": (
        OperatorCall(
            "max_unpool3d_backward",
            (
                tensor("grad_output", 1, 2, 2, 2, data=bytes(32)),
                tensor("self", 1, 3, 3, 3),
                tensor("indices", 1, 1, 1, 1, dtype="int64", data=bytes(8)),
            ),
            {"output_size": (2, 2, 2)},
        ),
        ["inputs[indices].shape", "attributes[output_size]"],
    ),
    "kernel": (OperatorCall(MASK, (GRAD, SELF, ARGMAX), {"kernel_size": (9,)}), ["attributes[kernel_size]"]),
    "pooled": (OperatorCall(MASK, (POOLED, SELF, ARGMAX), {"kernel_size": (2,)}), ["inputs[grad_output].shape"]),
}


@pytest.mark.parametrize(("call", "fields"), BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_bad_field_is_refused_by_name(call: OperatorCall, fields: list[str]) -> None:
    with pytest.raises(errors.InvalidFieldError) as caught:
        plan_call(call, Product.ATLAS_A2, Limits(NO_LIMIT))
    assert [violation.field for violation in caught.value.violations] == fields
    assert caught.value.field == fields[0]
    assert all(violation.problem and violation.remedy for violation in caught.value.violations)
    told = " ".join(map(str, caught.value.violations))
    is_about_names = "the operator takes" in told
    assert is_about_names or not re.search(r"(?<!inputs\[)\b(self|grad_output)\b", told), "inputs go by their fields"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("avg_pool9d_backward", "did you mean avg_pool2d or avg_pool2d_backward?"),
        ("nothing", "ListOperators"),
        ("", "ListOperators"),
    ],
)
def test_unknown_operator_is_told_a_similar_one_or_where_all_are(name: str, remedy: str) -> None:
    with pytest.raises(errors.UnknownOperatorError) as caught:
        plan_call(OperatorCall(name, (), {}), Product.ATLAS_A2, Limits(NO_LIMIT))
    assert remedy in str(caught.value)
    assert caught.value.field == "operator"
    assert caught.value.metadata == {"operator": name}


def test_operators_and_dtypes_are_those_of_the_product() -> None:
    with pytest.raises(errors.OperatorNotSupportedError, match="910B") as caught:
        plan_call(pooling(GRAD, SELF), Product.ATLAS_200I_A2, Limits(NO_LIMIT))
    assert caught.value.metadata == {"operator": POOLING, "product": "310B"}
    grad_output = tensor("grad_output", 1, 2, 2, dtype="bfloat16", data=bytes(8))
    unread = tensor("self", 1, 4, 4, dtype="bfloat16", data=bytes(32))
    plan_call(pooling(grad_output, unread), Product.ATLAS_A3, Limits(NO_LIMIT))
    told = r"; send float32 or float16 \(the server follows the rules of product 910A\)"
    with pytest.raises(errors.InvalidFieldError, match=told):
        plan_call(pooling(grad_output, unread), Product.ATLAS_TRAINING, Limits(NO_LIMIT))


def read_nevertheless() -> OperatorCall:
    """Returns a call whose `self` a device may read although the operator does not."""
    cases = typed_cases(Product.ATLAS_A2)
    typed = next(each for each in cases if any(input.read_for(each.arguments) for input in each.spec.inputs))
    views = [view_of_array(name, array) for name, array in typed.arrays().items()]
    unsent = tuple(TensorView(each.name, each.type) if each.name == "self" else each for each in views)
    return OperatorCall(typed.spec.name, unsent, typed.case.attributes)


def test_values_are_required_where_the_device_may_read_them_unless_the_setting_says_otherwise() -> None:
    shapes, sent = pooling(GRAD, SELF), pooling(GRAD, tensor("self", 1, 4, 4, data=bytes(64)))
    unread = pooling(tensor("grad_output", 1, 2, 2), SELF)
    inference, a2 = Product.ATLAS_INFERENCE, Product.ATLAS_A2
    for call, product, setting in (
        (shapes, inference, True),
        (read_nevertheless(), a2, True),
        (shapes, a2, None),
        (sent, a2, False),
    ):
        plan_call(call, product, Limits(NO_LIMIT, setting))
    for call, product, setting, error, told in (
        (shapes, inference, None, errors.InputValuesRequiredError, "310P.*send the array"),
        (read_nevertheless(), a2, None, errors.InputValuesRequiredError, "910B may read them here"),
        (shapes, a2, False, errors.InputValuesRequiredError, "--shape-only off; send the array"),
        (unread, a2, True, errors.InvalidFieldError, "send the values: the operator reads them"),
    ):
        with pytest.raises(error, match=told) as caught:
            plan_call(call, product, Limits(NO_LIMIT, setting))
        assert caught.value.field in ("inputs[self]", "inputs[grad_output].data")


def test_reply_that_is_no_message_is_refused_before_it_is_computed() -> None:
    plan = plan_call(pooling(GRAD, SELF), Product.ATLAS_A2, Limits(NO_LIMIT))
    size = len(plan.outputs[0].reply_prefix) + 64
    assert plan.reply_bytes == size
    check_reply_size("outputs[out]", size, size)
    with pytest.raises(errors.LimitExceededError, match=f"reply of {size} bytes .*--max-message-bytes") as caught:
        check_reply_size("outputs[out]", size, size - 1)
    assert caught.value.field == "outputs[out]"


@pytest.mark.parametrize(("name", "needed_for"), [("input", "grad_weight"), ("weight", "grad_input")])
def test_values_may_be_left_out_with_the_outputs_that_depend_on_them(name: str, needed_for: str) -> None:
    typed = next(typed_cases(Product.ATLAS_TRAINING, "convolution_backward"))
    views = [view_of_array(each, array) for each, array in typed.arrays().items()]
    unsent = tuple(TensorView(each.name, each.type) if each.name == name else each for each in views)
    others = tuple(each.name for each in typed.spec.outputs if each.name != needed_for)
    for setting in (True, None):
        call = OperatorCall(typed.spec.name, unsent, typed.case.attributes, outputs=others)
        plan = plan_call(call, Product.ATLAS_TRAINING, Limits(NO_LIMIT, setting))
        assert [each.name for each in plan.outputs] == list(others)
        told = f"inputs.{name}.*is missing; send the values, or ask for other outputs than {needed_for}"
        for outputs in ((), (needed_for,)):
            with pytest.raises(errors.InvalidFieldError, match=told):
                plan_call(replace(call, outputs=outputs), Product.ATLAS_TRAINING, Limits(NO_LIMIT, setting))
    with pytest.raises(errors.InputValuesRequiredError, match="--shape-only off"):
        plan_call(call, Product.ATLAS_TRAINING, Limits(NO_LIMIT, shape_only=False))


@pytest.mark.parametrize(
    ("self_shape", "limit", "field"),
    [((1, 4, 4), 63, "inputs[self].shape"), ((1, 1, 1), 15, "inputs[grad_output].shape")],
    ids=["unsent", "sent"],
)
def test_tensor_over_the_limit_is_refused(self_shape: tuple[int, ...], limit: int, field: str) -> None:
    call = pooling(GRAD, tensor("self", *self_shape))
    plan_call(call, Product.ATLAS_A2, Limits(limit + 1))
    with pytest.raises(errors.LimitExceededError, match=f"the limit is {limit}; .*--max-tensor-bytes") as caught:
        plan_call(call, Product.ATLAS_A2, Limits(limit))
    assert caught.value.field == field


@pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_told_so(scale: float) -> None:
    attributes = {"input_shape": (1, 1, 4, 4), "pooled_height": 1, "pooled_width": 1, "spatial_scale": scale}
    inputs = (tensor("grad_output", 1, 1, 1, 1, data=bytes(4)), tensor("boxes", 1, 5, data=bytes(20)))
    with pytest.raises(errors.InvalidFieldError) as caught:
        plan_call(OperatorCall("roi_align_v2_backward", inputs, attributes), Product.ATLAS_A2, Limits(NO_LIMIT))
    assert str(caught.value) == f"attributes[spatial_scale] is {scale}; send a finite number"


def announced(name: str, *shape: int) -> TensorView:
    """Returns a tensor whose values are in the message."""
    type = tensor(name, *shape).type
    return TensorView(name, type, InChunks(0, type.size_bytes))


@pytest.mark.parametrize(
    ("operator", "pooled", "size"),
    [
        ("adaptive_avg_pool3d_backward", (1, 1, 4000, 1), (1, 2800, 1, 2800)),
        ("adaptive_avg_pool2d_backward", (1, 2**20, 1), (1, 1, 2**20)),
    ],
)
def test_few_bytes_do_not_keep_a_device_busy_until_it_counts_as_lost(
    operator: str, pooled: tuple[int, ...], size: tuple[int, ...]
) -> None:
    call = OperatorCall(operator, (announced("grad_output", *pooled), tensor("self", *size)), {})
    with pytest.raises(errors.LimitExceededError, match=r"operations of 9e\+09 at most"):
        plan_call(call, Product.ATLAS_A2, Limits(NO_LIMIT, True, Pace(150e6, 1e9, 1e9, 0.0), 60.0))


PEAKS = {
    Product.ATLAS_TRAINING: 256e12,
    Product.ATLAS_A2: 376e12,
    Product.ATLAS_A3: 376e12,
    Product.ATLAS_INFERENCE: 70e12,
    Product.ASCEND_950: 500e12,
}
"""Operations of float16 in a second, the most that a device of the product is said to do."""


@pytest.mark.parametrize("product", [each for each in Product if each is not Product.ATLAS_200I_A2])
def test_a_card_refuses_nothing_that_it_does_in_a_second(product: Product) -> None:
    """At the pace of the table for as long as a kernel may take by default: a matrix product of 4096^3 is far below."""
    assert 60.0 * min(PACES[product].operations, PACES[product].matrix_operations) > PEAKS[product] > 4096.0**3 * 2
    size = 100_000  # windows of two cells along each axis: 4e10 operations, which a CPU refuses
    call = OperatorCall(POOLING, (announced("grad_output", 1, size, 1), tensor("self", 1, 1, 2 * size)), {})
    with pytest.raises(errors.LimitExceededError, match="counts as lost"):
        plan_call(call, product, Limits(NO_LIMIT, True, Pace(150e6, 1e9, 1e9, 0.0), 60.0))
    plan = plan_call(call, product, Limits(NO_LIMIT, True, PACES[product], 60.0))
    assert 0 < plan.seconds < 60


@pytest.mark.parametrize(("pooled", "size"), [((3, 5, 7), (3, 9, 4)), ((1, 6, 4), (1, 3, 8)), ((2, 1, 1), (2, 8, 8))])
def test_work_of_adaptive_pooling_is_the_cells_of_all_windows(pooled: tuple[int, ...], size: tuple[int, ...]) -> None:
    def cells(count: int, length: int) -> int:
        return sum(-(-(i + 1) * length // count) - i * length // count for i in range(count))

    inputs = {"grad_output": tensor("x", *pooled).type, "self": tensor("x", *size).type}
    expected = pooled[0] * cells(pooled[1], size[1]) * cells(pooled[2], size[2])
    assert OPERATORS["adaptive_avg_pool2d_backward"].operations(Arguments(inputs, {})) == expected


def test_work_in_proportion_to_the_tensors_is_never_too_much() -> None:
    inputs = (announced("grad_output", 1, 2**10, 2**10), tensor("self", 1, 2**11, 2**11))
    call = OperatorCall("adaptive_avg_pool2d_backward", inputs, {})
    pace = Pace(1.0, 1.0, 1.0, 0.0)
    assert plan_call(call, Product.ATLAS_A2, Limits(NO_LIMIT, True, pace, 1.0)).seconds > 2**20, "nor is it cut short"


def test_work_that_depends_on_values_is_alone_in_its_group_and_not_small() -> None:
    """Whoever is refused beside it would otherwise be told to wait for as long as a kernel may take."""
    attributes = {"input_shape": (1, 1, 4, 4), "pooled_height": 1, "pooled_width": 1, "sampling_ratio": 0}
    inputs = announced("grad_output", 1, 1, 1, 1), announced("boxes", 1, 5)
    call = OperatorCall("roi_align_v2_backward", inputs, attributes)
    assert plan_call(call, Product.ATLAS_A2, Limits(NO_LIMIT, True, PACES[Product.ATLAS_A2], 60.0)).seconds == GROUP_S
