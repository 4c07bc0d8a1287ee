"""A device without a device."""

from collections.abc import Callable

from aclgrad.errors import DeviceLostError
from aclgrad.operators.values import ValueRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.device import DeviceState, Reply
from aclgrad_server.validation import OperatorPlan, plan_call

NO_LIMIT = 2**63 - 1


class FakeReply:
    """Bytes in which a payload of 0x55 stands for what was in the memory before."""

    def __init__(self, prefix: bytes, payload_bytes: int) -> None:
        self.prefix = prefix
        self.payload = b"\x55" * payload_bytes

    def fill_with_zeros(self) -> None:
        self.payload = bytes(len(self.payload))

    def finish(self) -> bytes:
        return self.prefix + self.payload


class FakeDevice:
    """Implements `aclgrad_server.device.Device`: notes the plans and answers 0x01 everywhere, after `behaviour`."""

    soc_name = "Ascend910B1"

    def __init__(
        self, index: int = 0, behaviour: Callable[[OperatorPlan], None] = lambda plan: None, trim_fails: bool = False
    ) -> None:
        self.index = index
        self.behaviour = behaviour
        self.trim_fails = trim_fails
        self.trims = 0
        self.executed: list[tuple[OperatorPlan, float]] = []

    def new_reply(self, prefix: bytes, payload_bytes: int) -> FakeReply:
        return FakeReply(prefix, payload_bytes)

    def prepare(self, field: str, tensor: TensorView, rule: ValueRule) -> TensorView:
        return TensorView(tensor.name, rule.device_type(tensor.type), tensor.data)

    def execute(self, plan: OperatorPlan, inputs: tuple[TensorView, ...], reply: Reply, timeout_s: float) -> None:
        assert isinstance(reply, FakeReply)
        assert [each.name for each in inputs] == [each.name for each in plan.inputs]
        self.executed.append((plan, timeout_s))
        self.behaviour(plan)
        reply.payload = b"\x01" * len(reply.payload)

    def trim(self) -> None:
        if self.trim_fails:
            raise DeviceLostError("the device is lost")
        self.trims += 1

    def state(self) -> DeviceState:
        return DeviceState(0, 0, {}, 0, 0)


def tensor(name: str, *shape: int, dtype: str = "float32", data: bytes | None = None) -> TensorView:
    return TensorView(name, TensorType(DTYPES[dtype], shape), None if data is None else memoryview(data))


def pooling_plan(*self_shape: int) -> OperatorPlan:
    """Returns a legal plan whose output has this shape."""
    pooled = (*self_shape[:-2], 1, 1)
    grad_output = tensor("grad_output", *pooled)
    data = bytes(grad_output.type.size_bytes)
    inputs = (tensor("grad_output", *pooled, data=data), tensor("self", *self_shape))
    return plan_call(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}), Product.ATLAS_A2, NO_LIMIT)
