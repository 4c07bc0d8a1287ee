"""A device without a device."""

import weakref
from collections.abc import Callable, Sequence

from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad.operators.values import ValueRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.device import DeviceCall, DeviceInput, DeviceState
from aclgrad_server.validation import OperatorPlan, plan_call

NO_LIMIT = 2**63 - 1


class FakePart:
    """A payload of 0x55, which stands for what was in the memory before."""

    def __init__(self, payload_bytes: int) -> None:
        self.payload = b"\x55" * payload_bytes

    def fill_with_zeros(self) -> None:
        self.payload = bytes(len(self.payload))


class FakeReply:
    def __init__(self, sections: Sequence[tuple[bytes, int]]) -> None:
        self._prefixes = [prefix for prefix, _ in sections]
        self._parts = [FakePart(size) for _, size in sections]

    def parts(self) -> list[FakePart]:
        return self._parts

    def finish(self) -> bytes:
        return b"".join(prefix + part.payload for prefix, part in zip(self._prefixes, self._parts, strict=True))


class FakeTensor:
    """A staged tensor of 0x55, which stands for what was in the memory before."""

    def __init__(self, size_bytes: int) -> None:
        self.content = bytearray(b"\x55" * size_bytes)

    def write(self, offset: int, data: memoryview, timeout_s: float) -> None:
        assert 0 <= offset <= offset + len(data) <= len(self.content)
        self.content[offset : offset + len(data)] = data

    def read(self, offset: int, part: FakePart, timeout_s: float) -> None:
        assert 0 <= offset <= offset + len(part.payload) <= len(self.content)
        part.payload = bytes(self.content[offset : offset + len(part.payload)])


class FakeStaging:
    def __init__(self, staged: weakref.WeakSet[FakeTensor]) -> None:
        self._staged = staged

    def reserve(self, size_bytes: int) -> FakeTensor:
        tensor = FakeTensor(size_bytes)
        self._staged.add(tensor)
        return tensor

    def finish(self, timeout_s: float) -> None: ...


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
        self.contents: list[list[bytes | None]] = []
        self.staged: weakref.WeakSet[FakeTensor] = weakref.WeakSet()

    def new_reply(self, sections: Sequence[tuple[bytes, int]]) -> FakeReply:
        return FakeReply(sections)

    def prepare(self, field: str, type: TensorType, data: memoryview, rule: ValueRule) -> DeviceInput:
        return DeviceInput(rule.device_type(type), data)

    def execute(self, call: DeviceCall, timeout_s: float) -> None:
        assert [each.type for each in call.inputs] == [each.type for each in call.plan.inputs]
        self.executed.append((call.plan, timeout_s))
        self.contents.append([_bytes_of(each.content) for each in call.inputs])
        self.behaviour(call.plan)
        if isinstance(call.output, FakeTensor):
            call.output.content[:] = b"\x01" * len(call.output.content)
        else:
            assert isinstance(call.output, FakePart)
            call.output.payload = b"\x01" * len(call.output.payload)

    def execute_all(self, calls: Sequence[DeviceCall], timeout_s: float) -> list[AclgradError | None]:
        errors: list[AclgradError | None] = []
        for call in calls:
            try:
                self.execute(call, timeout_s)
                errors.append(None)
            except AclgradError as error:
                errors.append(error)
        return errors

    def release_finished(self) -> None: ...

    def trim(self) -> None:
        if self.trim_fails:
            raise DeviceLostError("the device is lost")
        self.trims += 1

    def stage(self, timeout_s: float) -> FakeStaging:
        return FakeStaging(self.staged)

    def state(self) -> DeviceState:
        return DeviceState(0, 0, {}, 0, 0)


def _bytes_of(content: object) -> bytes | None:
    if isinstance(content, FakeTensor):
        return bytes(content.content)
    assert content is None or isinstance(content, memoryview)
    return None if content is None else bytes(content)


def tensor(name: str, *shape: int, dtype: str = "float32", data: bytes | None = None) -> TensorView:
    return TensorView(name, TensorType(DTYPES[dtype], shape), None if data is None else memoryview(data))


def pooling_plan(*self_shape: int) -> OperatorPlan:
    """Returns a legal plan whose output has this shape."""
    pooled = (*self_shape[:-2], 1, 1)
    grad_output = tensor("grad_output", *pooled)
    data = bytes(grad_output.type.size_bytes)
    inputs = (tensor("grad_output", *pooled, data=data), tensor("self", *self_shape))
    return plan_call(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}), Product.ATLAS_A2, NO_LIMIT)
