"""Executes plans: waits for a turn, chooses a device, and has the device write the reply."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from aclgrad.errors import AclgradError, DeadlinePassedError, DeviceLostError
from aclgrad.operators.values import ValueRule
from aclgrad.tensors import Announced, SharedRange
from aclgrad_server.admission import Admission, AtEnd, Turn
from aclgrad_server.device import Device, DeviceCall, DeviceInput, ReplyPart
from aclgrad_server.validation import OperatorPlan


class Executor:
    """Runs at most `admission.running_limit` calls at once, each on the device whose memory `admission` gives it.

    `on_device_lost` is called whenever a plan ends because its device failed. `deadline` is a time of
    `time.monotonic` everywhere.
    """

    def __init__(
        self, devices: Sequence[Device], admission: Admission, on_device_lost: Callable[[], None] = lambda: None
    ) -> None:
        self.devices = tuple(devices)
        self.admission = admission
        self._on_device_lost = on_device_lost

    def execute(self, plan: OperatorPlan, deadline: float, at_end: AtEnd = lambda release: False) -> bytes:
        """Returns the serialized ExecuteOperatorResponse of the plan, whose bytes stay admitted until `at_end`.

        Raises an AclgradError where the call is refused, too late, or fails on the device.
        """
        turn = self.admission.admit(deadline, plan.size_bytes)
        with self._on_device(turn) as device:
            inputs = prepare(device, plan)
            reply = device.new_reply([(plan.reply_prefix, plan.output_bytes)])
            (output,) = reply.parts()
            if not fill_if_empty(plan, output):
                device.execute(DeviceCall(plan, inputs, output), remaining(deadline))
            turn.keep_bytes(plan.output_bytes, at_end)
            return reply.finish()

    def execute_all(
        self,
        plans: Sequence[OperatorPlan],
        prefixes: Sequence[bytes],
        deadline: float,
        at_end: AtEnd = lambda release: False,
    ) -> tuple[bytes, list[AclgradError | None]]:
        """Returns the outputs, each behind its prefix, and the error of each plan that failed, whose bytes are void.

        The plans share one place and one device, and the outputs stay admitted until `at_end`. Raises an AclgradError
        where all of them are refused or too late.
        """
        size_bytes = sum(plan.size_bytes for plan in plans)
        turn = self.admission.admit(deadline, size_bytes)
        with self._on_device(turn) as device:
            errors: list[AclgradError | None] = [None] * len(plans)
            reply = device.new_reply(
                [(prefix, plan.output_bytes) for prefix, plan in zip(prefixes, plans, strict=True)]
            )
            calls: dict[int, DeviceCall] = {}
            for index, (plan, output) in enumerate(zip(plans, reply.parts(), strict=True)):
                try:
                    inputs = prepare(device, plan)
                except AclgradError as error:
                    errors[index] = error
                    continue
                if not fill_if_empty(plan, output):
                    calls[index] = DeviceCall(plan, inputs, output)
            found = device.execute_all(tuple(calls.values()), remaining(deadline))
            for index, failure in zip(calls, found, strict=True):
                errors[index] = failure
            if any(isinstance(error, DeviceLostError) for error in found):
                self._on_device_lost()
            turn.keep_bytes(sum(plan.output_bytes for plan in plans), at_end)
            return reply.finish(), errors

    @contextmanager
    def hold(
        self, size_bytes: int, deadline: float, reply_bytes: int = 0, at_end: AtEnd = lambda release: False
    ) -> Iterator[Device]:
        """Holds memory, without a place to run, on the device with the fewest outstanding bytes.

        So many of them as are in the reply stay admitted until `at_end`.
        """
        turn = self.admission.hold(deadline, size_bytes)
        with self._on_device(turn) as device:
            yield device
            turn.keep_bytes(reply_bytes, at_end)

    def _on_device(self, turn: Turn) -> "_Choice":
        return _Choice(self.devices, turn, self._on_device_lost)


class _Choice:
    """A turn, as the device that it was given while its block runs."""

    __slots__ = ("_devices", "_on_device_lost", "_turn")

    def __init__(self, devices: Sequence[Device], turn: Turn, on_device_lost: Callable[[], None]) -> None:
        self._devices = devices
        self._turn = turn
        self._on_device_lost = on_device_lost

    def __enter__(self) -> Device:
        return self._devices[self._turn.__enter__()]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._turn.__exit__()
        if isinstance(error, DeviceLostError):
            self._on_device_lost()


def prepare(device: Device, plan: OperatorPlan) -> Sequence[DeviceInput]:
    """Returns the inputs as the device reads them, with every value that has a rule checked against it."""
    inputs = []
    for tensor, rule in zip(plan.inputs, plan.rules, strict=True):
        assert not isinstance(tensor.data, Announced | SharedRange)
        inputs.append(prepare_input(device, tensor.name, DeviceInput(tensor.type, tensor.data), rule))
    return inputs


def prepare_input(device: Device, name: str, given: DeviceInput, rule: ValueRule | None) -> DeviceInput:
    """Returns the input as the device reads it; raises a RequestError where a value breaks the rule."""
    content = given.content
    if rule is None or content is None or given.type.element_count == 0:
        return given
    assert isinstance(content, memoryview)
    return device.prepare(f"inputs[{name}]", given.type, content, rule)


def fill_if_empty(plan: OperatorPlan, output: ReplyPart) -> bool:
    """Answers for the device where it would leave the output as it was, with what others had in that memory."""
    if plan.is_empty:
        output.fill_with_zeros()
    return plan.is_empty


def remaining(deadline: float) -> float:
    """Returns the seconds that are left; raises DeadlinePassedError where there are none."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise DeadlinePassedError("the deadline passed before the operator started; allow more time")
    return remaining
