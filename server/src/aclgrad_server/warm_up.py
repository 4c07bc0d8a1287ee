"""The call that a device has to answer before the server says that it is ready."""

import logging
import time
from typing import Final

from aclgrad.errors import AclgradError
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.admission import Admission
from aclgrad_server.device import Device
from aclgrad_server.executor import Executor
from aclgrad_server.faults import StartError
from aclgrad_server.validation import plan_call

log = logging.getLogger(__name__)

_NO_LIMIT: Final = 2**63 - 1


def warm_up(device: Device, product: Product, timeout_s: float) -> None:
    """Runs the first case of the table on the device; raises StartError where it does not answer."""
    start = time.monotonic()
    plan = plan_call(_call_of(next(typed_cases(product))), product, _NO_LIMIT)
    try:
        Executor([device], Admission(1, 1)).execute(plan, start + timeout_s)
    except AclgradError as error:
        cause = error.__cause__ or error
        remedy = f"; {error.remedy}" if error.remedy else ""
        raise StartError(f"device {device.index} does not answer {plan.spec.symbol}: {cause}{remedy}") from error
    log.info("device %d answered %s in %.0f ms", device.index, plan.spec.symbol, (time.monotonic() - start) * 1e3)


def _call_of(typed: TypedCase) -> OperatorCall:
    views = tuple(view_of_array(name, array) for name, array in typed.arrays().items())
    return OperatorCall(typed.spec.name, views, typed.case.attributes)
