"""What is counted of inputs with views: their shapes, their bytes and the copies, whoever makes those."""

from dataclasses import replace

import numpy as np
import pytest

from aclgrad.errors import LimitExceededError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorSpec
from aclgrad.operators.values import BoolRule, IndexRule
from aclgrad.products import Product
from aclgrad.sources import InChunks, SharedRange, Source, in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View, input_of_array, view_of_array
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices import plan as module
from aclgrad_server.devices.plan import Limits, plan_call
from aclgrad_server.devices.planning import Planner
from tests.server.sent import NO_LIMIT

A2 = Product.ATLAS_A2
SILU = "silu_backward"
READ = Limits(NO_LIMIT, reads_views={SILU})
COPIED = Limits(NO_LIMIT)
SHAPE = (4, 8)
ROW_BYTES, ALL_BYTES = 32, 128


def silu(view: View | None, size_bytes: int = ALL_BYTES, source: Source | None = None) -> OperatorCall:
    grad = TensorView(
        "grad_output", TensorType(DTYPES["float32"], SHAPE), source or in_message(memoryview(bytes(size_bytes))), view
    )
    return OperatorCall(SILU, (grad, view_of_array("self", np.ones(SHAPE, np.float32))), {})


@pytest.mark.parametrize(
    ("view", "size_bytes", "read", "copied"),
    [
        pytest.param(None, ALL_BYTES, ALL_BYTES, ALL_BYTES, id="row-major"),
        pytest.param(View(0, (1, 4)), ALL_BYTES, ALL_BYTES, 2 * ALL_BYTES, id="transposed"),
        pytest.param(View(0, (0, 1)), ROW_BYTES, ALL_BYTES, ROW_BYTES + ALL_BYTES, id="one row for all"),
        pytest.param(View(8), 3 * ALL_BYTES, 3 * ALL_BYTES, 4 * ALL_BYTES, id="a part of more"),
    ],
)
def test_device_memory(view: View | None, size_bytes: int, read: int, copied: int) -> None:
    """Beside it are the other input and the output."""
    for limits, own in ((READ, read), (COPIED, copied)):
        plan = plan_call(silu(view, size_bytes), A2, limits)
        assert plan.input_bytes == (own, ALL_BYTES)
        assert plan.size_bytes == own + 2 * ALL_BYTES
        assert plan.encoded_bytes == 0


def test_time_is_that_of_the_shape() -> None:
    limits = Limits(NO_LIMIT, pace=module.Pace(1e9, 1e9, 1e9, 0.0))
    plans = [plan_call(silu(*each), A2, limits) for each in ((None,), (View(0, (0, 0)), 4))]
    assert plans[0].seconds == plans[1].seconds


def test_four_bytes_are_no_free_terabytes() -> None:
    type = TensorType(DTYPES["float32"], (2**20, 2**20))
    inputs = tuple(
        TensorView(name, type, in_message(memoryview(bytes(4))), View(0, (0, 0))) for name in ("grad_output", "self")
    )
    with pytest.raises(LimitExceededError, match="takes 4398046511104 bytes"):
        plan_call(OperatorCall(SILU, inputs, {}), A2, Limits(2**40))


def test_bytes_beyond_the_limit_of_a_tensor_are_refused_although_the_view_is_small() -> None:
    limits = Limits(2 * ALL_BYTES)
    plan_call(silu(View(8), 2 * ALL_BYTES), A2, limits)
    with pytest.raises(LimitExceededError, match=r"inputs\[grad_output\].data has 260 bytes"):
        plan_call(silu(View(8), 2 * ALL_BYTES + 4), A2, limits)


def test_what_has_a_rule_is_copied_in_the_process() -> None:
    """Also for a device that reads views, which gets the copy that was checked."""
    indices = TensorView("indices", TensorType(DTYPES["int64"], (50,)), in_message(memoryview(bytes(8))), View(0, (0,)))
    grad = view_of_array("grad_output", np.ones((50, 3), np.float32))
    call = OperatorCall("embedding_dense_backward", (grad, indices), {"num_weights": 5})
    plan = plan_call(call, A2, Limits(NO_LIMIT, reads_views=OPERATORS))
    assert plan.rules == (None, IndexRule(5))
    assert plan.input_bytes == (600, 400)
    assert plan.encoded_bytes == 400


def test_executors_are_shared_by_copies_and_row_major_inputs_alone() -> None:
    views = (None, View(0, (1, 4)), View(0, (8, 1)), View(1, (1, 4)))
    sizes = (ALL_BYTES, ALL_BYTES, ALL_BYTES, ALL_BYTES + 4)
    copied, read = (
        [plan_call(silu(view, size), A2, limits).native.key for view, size in zip(views, sizes, strict=True)]
        for limits in (COPIED, READ)
    )
    assert len(set(copied)) == 1
    assert len(set(read)) == 4
    assert read[0] == copied[0]


def test_a_view_is_a_part_of_a_form() -> None:
    planner = Planner(A2, READ)
    views = (None, View(0, (1, 4)), View(0, (4, 1)), View(0, (1, 4)))
    plans = [planner.step(silu(each)).plan for each in views]
    assert plans[1] is plans[3]
    assert len({id(each) for each in plans}) == 3


def test_bytes_of_a_view_may_come_in_chunks() -> None:
    step = Planner(A2, COPIED).step(silu(View(0, (0, 1)), source=InChunks(0, ROW_BYTES)))
    assert step.plan.input_bytes == (ROW_BYTES + ALL_BYTES, ALL_BYTES)
    assert step.beside == [(0, InChunks(0, ROW_BYTES))]


def with_mask(spec: OperatorSpec) -> OperatorSpec:
    """The operator with a mask in the place of its second input."""
    grad, saved = spec.inputs
    return replace(spec, inputs=(grad, replace(saved, dtypes=dict.fromkeys(saved.dtypes, ("bool",)))), check=nothing)


def nothing(*_: object) -> tuple[()]:
    return ()


def test_bools_have_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = with_mask(OPERATORS[SILU])
    monkeypatch.setattr(module, "find_operator", lambda name, product: spec)
    mask = input_of_array("self", np.ones(SHAPE, np.bool_).copy(order="F"))
    grad = view_of_array("grad_output", np.ones(SHAPE, np.float32))
    plan = plan_call(OperatorCall(SILU, (grad, mask), {}), A2, READ)
    assert plan.rules == (None, BoolRule())
    assert plan.input_bytes == (ALL_BYTES, ALL_BYTES // 4)
    assert plan.encoded_bytes == ALL_BYTES // 4


def test_nothing_is_checked_of_a_tensor_without_elements() -> None:
    index = in_message(memoryview(np.array([99])).cast("B"))
    indices = TensorView("indices", TensorType(DTYPES["int64"], (0,)), index, View(0, (2,)))
    grad = view_of_array("grad_output", np.ones((0, 3), np.float32))
    plan = plan_call(OperatorCall("embedding_dense_backward", (grad, indices), {"num_weights": 5}), A2, READ)
    assert plan.is_empty
    assert plan.size_bytes == 5 * 3 * 4


def test_bytes_beside_a_tensor_without_elements_are_counted() -> None:
    """Shared memory is brought to the device before anybody sees that there is nothing to compute."""
    type = TensorType(DTYPES["float32"], (0, 8))
    range = SharedRange("/aclgrad-x", 0, 2**20)
    grad = TensorView("grad_output", type, range, View(0))
    call = OperatorCall(SILU, (grad, TensorView("self", type)), {})
    step = Planner(A2, READ).step(call)
    assert step.plan.is_empty
    assert step.plan.size_bytes == 2**20
    with pytest.raises(LimitExceededError, match="has 1048576 bytes and the limit is 1024"):
        plan_call(call, A2, Limits(2**10))
