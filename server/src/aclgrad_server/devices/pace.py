"""The device's pace of computing and copying: a table for cards, a measurement for the CPU."""

import logging
import time
from dataclasses import astuple
from typing import Final

import numpy as np

from aclgrad.errors import AclgradError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.validation import check_call
from aclgrad.products import PACES, Pace, Product, Work
from aclgrad.tensors import TensorView, type_of_array, view_of_array
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.opening import Library
from aclgrad_server.devices.plan import Limits, plan_call
from aclgrad_server.devices.turned_off import TurnedOff

log = logging.getLogger(__name__)

SLOWEST: Final = Pace(150e6, 1e9, 1e9, 10e-6)
"""The pace of a CPU that could not be measured."""
_POOLING: Final = "adaptive_avg_pool2d_backward"
_MOVING: Final = "tanh_backward"
_MULTIPLYING: Final = "mm"
_WIDTH: Final = 256  # of the matrices
_ROUNDS: Final = 3
LAUNCHES: Final = 3 * _ROUNDS
"""Time of a measurement."""
_SHARE: Final = 1 / 8  # of the measured pace: other operators have slower kernels, and other calls run
_TIMEOUT_S: Final = 10.0
_NO_LIMITS: Final = Limits(2**40)


async def pace_of(device: Device, library: Library, off: TurnedOff) -> Pace:
    """Returns the product's pace; for a CPU, a part of the pace measured with operators that are not off."""
    product = off.product
    if not library.computes_on_cpu:
        return PACES[product]
    if any(off.has(name, "float32") for name in (_POOLING, _MOVING, _MULTIPLYING)):
        return SLOWEST
    values = np.ones((1, 8, 192, 192), np.float32)
    grad, flat = view_of_array("grad_output", values[..., 1:, 1:]), values.reshape(-1)
    pooled = OperatorCall(_POOLING, (grad, TensorView("self", type_of_array("", values))), {})
    moved = OperatorCall(_MOVING, (view_of_array("grad_output", flat), view_of_array("output", flat)), {})
    matrix = np.ones((_WIDTH, _WIDTH), np.float32)
    operands = tuple(view_of_array(name, matrix) for name in ("self", "mat2"))
    multiplied = OperatorCall(_MULTIPLYING, operands, {})
    try:
        pooled_s, moved_s, multiplied_s = [
            await _seconds(device, product, each) for each in (pooled, moved, multiplied)
        ]
    except AclgradError as error:
        log.warning("the pace of the CPU was not measured: %s", error)
        return SLOWEST
    operations, nbytes = _work(pooled, product).operations / pooled_s, _work(moved, product).nbytes / moved_s
    products = _work(multiplied, product).matrix_operations / multiplied_s
    log.info(
        "the CPU does %.2g operations a second, %.2g of products, and moves %.2g bytes", operations, products, nbytes
    )
    measured = Pace(_SHARE * operations, _SHARE * nbytes, _SHARE * products, 0.0)
    return Pace(*map(max, astuple(measured), astuple(SLOWEST)))


async def _seconds(device: Device, product: Product, call: OperatorCall) -> float:
    """Returns the shortest time of some runs."""
    plan = plan_call(call, product, _NO_LIMITS)
    contents = [each.data for each in call.inputs]
    times = []
    for _ in range(_ROUNDS):
        start = time.monotonic()
        await device.execute(plan, contents, start + _TIMEOUT_S, lambda: None)
        times.append(time.monotonic() - start)
    return min(times)


def _work(call: OperatorCall, product: Product) -> Work:
    spec = OPERATORS[call.operator]
    return spec.work(check_call(call, spec, product))
