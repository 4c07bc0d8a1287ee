"""The call that a device has to answer before the server says that it is ready."""

import logging
import time
from typing import Final

from aclgrad.errors import AclgradError
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.calls.admission import check_size
from aclgrad_server.calls.validation import plan_call
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.faults import StartError

log = logging.getLogger(__name__)

_NO_LIMIT: Final = 2**63 - 1


async def warm_up(device: Device, product: Product, timeout_s: float) -> None:
    """Runs the first case of the table on the device, within its pool; raises StartError if it does not answer."""
    start = time.monotonic()
    plan = plan_call(_call_of(next(typed_cases(product))), product, _NO_LIMIT)
    try:
        check_size(plan.size_bytes, device.pool_limit_bytes)
        prepared = plan.with_prepared(device.prepare(plan))
        await device.execute(prepared, prepared.contents(()), start + timeout_s, lambda: None)
    except AclgradError as error:
        why = str(error)
        if error.__cause__ is not None:
            # The library's own words, which no client sees, tell the operator more.
            why = f"{error.__cause__}; {error.remedy}" if error.remedy else str(error.__cause__)
        raise StartError(f"device {device.index} does not answer {plan.spec.symbol}: {why}") from error
    log.info("device %d answered %s in %.0f ms", device.index, plan.spec.symbol, (time.monotonic() - start) * 1e3)


def _call_of(typed: TypedCase) -> OperatorCall:
    views = tuple(view_of_array(name, array) for name, array in typed.arrays().items())
    return OperatorCall(typed.spec.name, views, typed.case.attributes)
