"""Inputs as they lie in the client's memory: the bits of row-major ones, whoever copies, and never memory of others."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad import reference
from aclgrad.judge.findings.comparison import against_definition
from aclgrad.judge.findings.rows import Verdict
from aclgrad.operators.cases import arrays_of, first_cases, typed_cases
from aclgrad.operators.spec import OperatorKind
from aclgrad.products import Product
from aclgrad.sources import in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View, view_of_array
from aclgrad.tolerances import tolerance_of
from aclgrad.wire import service
from aclgrad.wire.messages import OperatorCall
from tests.bounds import bits_of
from tests.e2e.fault_plans import assert_no_misuse, write_config
from tests.e2e.shared_objects import Objects, sharing_server
from tools.raw_calls import assert_idle, error_of, execute, open_channel
from tools.serving import Server

# Whether devices read the host's memory, the product, and what --strided-inputs says.
SERVERS = {
    "copied on the device": (False, "910B", "none"),
    "read by kernels": (False, "910B", "all"),
    "read from messages": (True, "910B", "all"),
    "encoded, some read": (True, "910A", "softmax_backward,silu_backward"),
}
MASKS = "max_pool2d_with_mask_backward"


@pytest.fixture(scope="module", params=SERVERS.values(), ids=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    host_pointers, product, strided = request.param
    folder: Path = tmp_path_factory.mktemp("views")
    config = write_config(folder, host_pointers=host_pointers, product=product)
    with sharing_server(folder, "--acl-config", config, "--strided-inputs", strided) as server:
        yield server
        if product == "910B":
            assert_idle(server)
    assert_no_misuse(folder)


@pytest.mark.parametrize("way", ["message", "chunks", "shared", "batch"])
def test_transposed_inputs_have_the_bits_of_row_major_ones(
    server: Server, objects: Objects, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(service, "SHARED_ABOVE_BYTES", 1)
    options: dict[str, Any] = {"chunks": {"max_message_bytes": 401}, "shared": {"shared_memory": True}}.get(way, {})
    address = server.addresses[0 if way == "shared" else 1]
    with ExitStack() as stack:
        client = stack.enter_context(aclgrad.Client(server.addresses[1], shape_only=False))
        other = stack.enter_context(aclgrad.Client(address, shape_only=False, **options))
        product = Product(client.server_status().product)
        # Of each operator all cases in messages, and one in every other way.
        cases = typed_cases(product) if way == "message" else first_cases(product)
        for typed in (each for each in cases if each.dtype == "float32"):
            arrays = typed.arrays()
            transposed = {name: array.copy(order="F") for name, array in arrays.items()}
            expected = client.execute(typed.spec.name, arrays, typed.case.attributes)
            if way == "batch":
                batch = other.batch()
                for _ in range(3):
                    batch.execute(typed.spec.name, transposed, typed.case.attributes)
                (found, *_) = batch.run()
            else:
                found = other.execute(typed.spec.name, transposed, typed.case.attributes)
            if typed.spec.kind is OperatorKind.GRADIENT and not typed.spec.matrix_operations(typed.arguments):
                assert bits_of(arrays_of(found)) == bits_of(arrays_of(expected)), typed
                continue
            # Sums may be in the order of the memory.
            tolerance = tolerance_of(typed.spec, product, arrays, typed.case.attributes)
            truth = reference.define(typed.spec.name, arrays, typed.case.attributes)
            assert against_definition(found, truth, typed.outputs, tolerance).verdict is Verdict.PASSED, typed


def test_slices_and_broadcasts(server: Server) -> None:
    """Through offsets and strides of 0, which the client's arrays seldom have."""
    values = np.random.default_rng(1).standard_normal((6, 8), np.float32)
    views = {
        "slice": (View(9, (8, 1)), values[1:4, 1:5]),
        "offset": (View(8), values.reshape(-1)[8:20].reshape(3, 4)),
        "row for all": (View(2, (0, 1)), np.broadcast_to(values[0, 2:6], (3, 4))),
        "one value": (View(47, (0, 0)), np.broadcast_to(values[5, 7], (3, 4))),
        "diagonals": (View(0, (9, 1)), np.stack([values[i, i : i + 4] for i in range(3)])),
    }
    output = np.random.default_rng(2).random((3, 4), np.float32)
    with open_channel(server) as channel:
        for name, (view, seen) in views.items():
            grad = TensorView("grad_output", TensorType(DTYPES["float32"], (3, 4)), memory_of(values), view)
            call = OperatorCall("softmax_backward", (grad, view_of_array("output", output)), {"dim": -1})
            plain = replace(call, inputs=(view_of_array("grad_output", np.ascontiguousarray(seen)), call.inputs[1]))
            assert execute(channel, call) == execute(channel, plain), name


def refusal_of(channel: grpc.Channel, call: OperatorCall) -> aclgrad.AclgradError:
    with pytest.raises(grpc.RpcError) as caught:
        execute(channel, call)
    return error_of(caught.value)


def memory_of(array: np.ndarray) -> Any:
    return in_message(memoryview(array).cast("B"))


def pooled(view: View | None, argmax: np.ndarray, shape: tuple[int, ...]) -> OperatorCall:
    indices = TensorView("indices", TensorType(DTYPES["int32"], shape), memory_of(argmax), view)
    grad = view_of_array("grad_output", np.ones(shape, np.float32))
    image = view_of_array("self", np.ones((1, shape[1], 4, 4), np.float32))
    return OperatorCall(MASKS, (grad, image, indices), {"kernel_size": (2, 2), "stride": (2, 2)})


def test_what_is_checked_is_what_the_device_reads(server: Server) -> None:
    """An argmax through a view: legal only as the view has it, though its bytes are legal in another order."""
    legal = np.array([[0, 2], [8, 10]], np.int32).reshape(1, 1, 2, 2)
    with open_channel(server) as channel:
        expected = execute(channel, pooled(None, legal, (1, 1, 2, 2)))
        transposed = np.ascontiguousarray(legal.swapaxes(-1, -2))
        assert execute(channel, pooled(View(0, (4, 4, 1, 2)), transposed, (1, 1, 2, 2))) == expected
        for call in (
            pooled(View(0, (4, 4, 1, 2)), legal, (1, 1, 2, 2)),
            pooled(View(0, (0, 0, 0, 0)), legal[..., :1, :1].copy(), (1, 1, 2, 2)),
        ):
            error = refusal_of(channel, call)
            assert error.reason == "INVALID_FIELD"
            assert error.violations[0].field == "inputs[indices].data"
        # One index for all channels is legal: its window is the same in each of them.
        repeated = execute(channel, pooled(View(0, (0, 0, 2, 1)), legal, (1, 3, 2, 2)))
        assert repeated == 3 * expected


def test_an_index_for_all(server: Server) -> None:
    """One index of 8 bytes is repeated by strides of 0, and the gradients of all rows go to it."""
    grad = np.random.default_rng(3).standard_normal((50, 3), np.float32)
    for index, is_legal in ((4, True), (5, False), (-1, False)):
        indices = TensorView(
            "indices", TensorType(DTYPES["int64"], (50,)), memory_of(np.array([index], np.int64)), View(0, (0,))
        )
        call = OperatorCall(
            "embedding_dense_backward", (view_of_array("grad_output", grad), indices), {"num_weights": 5}
        )
        with open_channel(server) as channel:
            if is_legal:
                found = np.frombuffer(execute(channel, call), np.float32).reshape(5, 3)
                np.testing.assert_allclose(found[4], grad.astype(np.float64).sum(0), rtol=1e-5, atol=1e-5)
                assert not found[:4].any()
            else:
                assert refusal_of(channel, call).reason == "INVALID_FIELD"


@pytest.mark.parametrize(
    ("view", "shape"),
    [
        (View(0, (0, 0, 0)), (2**11, 2**11, 2**11)),
        (View(0, (0, 1)), (2**62, 1)),
        (View(0, (0, 0)), (2**31, 2**31)),
    ],
    ids=["8 bytes for 32 GiB", "overflow in bytes", "overflow of the product"],
)
def test_repeated_elements_are_counted(server: Server, view: View, shape: tuple[int, ...]) -> None:
    type = TensorType(DTYPES["float32"], shape)
    inputs = tuple(
        TensorView(name, type, memory_of(np.ones(2, np.float32)), view) for name in ("grad_output", "output")
    )
    with open_channel(server) as channel:
        error = refusal_of(channel, OperatorCall("softmax_backward", inputs, {"dim": 0}))
    assert error.reason in ("LIMIT_EXCEEDED", "INVALID_FIELD")
    assert error.remedy


def test_a_view_of_nothing(server: Server) -> None:
    empty = TensorView("grad_output", TensorType(DTYPES["float32"], (0, 3)), memory_of(np.ones(3, np.float32)), View(2))
    nothing = view_of_array("output", np.ones((0, 3), np.float32))
    with open_channel(server) as channel:
        assert execute(channel, OperatorCall("softmax_backward", (empty, nothing), {"dim": 1})) == b""
