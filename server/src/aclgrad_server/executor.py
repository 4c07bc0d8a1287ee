"""Executes plans: waits for a turn, chooses a device, and has the device write the reply."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from aclgrad.errors import DeadlinePassedError, DeviceLostError
from aclgrad.tensors import TensorView
from aclgrad.wire.messages import response_prefix
from aclgrad_server.admission import Admission
from aclgrad_server.device import Device
from aclgrad_server.validation import OperatorPlan


class Executor:
    """Runs at most `admission.running_limit` plans at once, each on the device with the fewest outstanding bytes.

    `on_device_lost` is called whenever a plan ends because its device failed.
    """

    def __init__(
        self, devices: Sequence[Device], admission: Admission, on_device_lost: Callable[[], None] = lambda: None
    ) -> None:
        self.devices = tuple(devices)
        self.admission = admission
        self._on_device_lost = on_device_lost
        self._lock = threading.Lock()
        self._outstanding_bytes = [0] * len(self.devices)

    def execute(self, plan: OperatorPlan, deadline: float) -> bytes:
        """Returns the serialized ExecuteOperatorResponse of the plan.

        Raises an AclgradError where the call is refused, too late, or fails on the device; `deadline` is a time of
        `time.monotonic`.
        """
        with self.admission.admit(deadline, plan.size_bytes), self._choose_device(plan.size_bytes) as device:
            prefix = response_prefix(plan.spec.output.name, plan.output)
            is_empty = any(tensor.type.element_count == 0 for tensor in plan.inputs)
            inputs = plan.inputs if is_empty else _prepare(device, plan)
            reply = device.new_reply(prefix, plan.output.size_bytes)
            if is_empty:
                # Operators leave the output of empty inputs untouched, and device memory holds what others left there.
                reply.fill_with_zeros()
            else:
                device.execute(plan, inputs, reply, _remaining(deadline))
            return reply.finish()

    @contextmanager
    def _choose_device(self, size_bytes: int) -> Iterator[Device]:
        outstanding = self._outstanding_bytes
        with self._lock:
            chosen = outstanding.index(min(outstanding))
            outstanding[chosen] += size_bytes
        try:
            yield self.devices[chosen]
        except DeviceLostError:
            self._on_device_lost()
            raise
        finally:
            with self._lock:
                outstanding[chosen] -= size_bytes


def _prepare(device: Device, plan: OperatorPlan) -> tuple[TensorView, ...]:
    """Returns the inputs as the device reads them, with every value that has a rule checked against it."""
    return tuple(
        tensor if rule is None else device.prepare(f"inputs[{tensor.name}]", tensor, rule)
        for tensor, rule in zip(plan.inputs, plan.rules, strict=True)
    )


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise DeadlinePassedError("the deadline passed before the operator started; allow more time")
    return remaining
