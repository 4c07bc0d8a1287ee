"""The self-test turns off what a device computes wrongly, and refuses a device that does not answer."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import aclgrad_native as native
from aclgrad.errors import (
    AclgradError,
    DeadlinePassedError,
    DeviceLostError,
    DeviceMemoryError,
    LimitExceededError,
    ServerFaultError,
)
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import dtype_of_wire
from aclgrad_server.devices import self_test as module
from aclgrad_server.devices.device import Content, OnEnd
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.plan import StepPlan
from aclgrad_server.devices.self_test import self_test
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.exits import StartError
from tests.server.fake_device import FakeDevice

WRONG, OTHER, THIRD = "max_unpool3d_backward", "roi_align_v2_backward", "upsample_nearest2d_backward"
SYMBOL = OPERATORS[WRONG].symbol
MISSING = "install CANN's operator package for this card, or set ASCEND_CUSTOM_OPP_PATH before the start"
TIMEOUT_S = 1000
OTHERS = sorted(set(Product) - {Product.ATLAS_A2, Product.ATLAS_200I_A2})
FEW_PRODUCTS = [Product.ATLAS_A2, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)]

Array = np.ndarray[Any, Any]
Change = Callable[[Array], Array]


TRUTHS: dict[int, tuple[Array, ...]] = {}
"""Of the plans of known cases."""
make_cases = module.known_cases


@cache
def known_once(product: Product) -> list[module.KnownCase]:
    cases = make_cases(product)
    TRUTHS.update((id(case.plan), case.truths) for case in cases)
    return cases


@pytest.fixture(autouse=True)
def _known_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases of a product take longer to make than to run."""
    monkeypatch.setattr(module, "known_cases", known_once)


class HonestDevice(FakeDevice):
    """Answers with the known gradient; `changes` makes another of it, or an error, for some operators.

    With `only`, they do so for this dtype.
    """

    def __init__(
        self, index: int = 0, changes: Mapping[str, Change | Exception] | None = None, only: str | None = None
    ) -> None:
        super().__init__(index)
        self.changes = changes or {}
        self.only = only

    async def execute(self, plan: StepPlan, contents: Sequence[Content], deadline: float, on_end: OnEnd) -> bytes:
        self.executed.append((plan, deadline))
        name = plan.spec.name
        is_changed = self.only in (None, plan.outputs[0].type.dtype.name)
        change = self.changes.get(name, _same) if is_changed else _same
        if isinstance(change, Exception):
            raise change
        first, *others = TRUTHS[id(plan)]
        gradients = zip(plan.outputs, (change(first), *others), strict=True)
        return b"".join(
            each.reply_prefix + gradient.astype(each.type.dtype.numpy).tobytes() for each, gradient in gradients
        )


def _same(gradient: Array) -> Array:
    return gradient


def one_element(value: float) -> Change:
    def change(gradient: Array) -> Array:
        gradient = gradient.copy()
        gradient.flat[-1] = value if gradient.dtype.kind in "fc" else gradient.flat[-1] ^ 1
        return gradient

    return change


def caused(error: AclgradError, cause: str) -> AclgradError:
    error.__cause__ = RuntimeError(cause)
    return error


def refused(code: int) -> AclgradError:
    """The error of a library that lacks an operator or a dtype."""
    cause = native.AclError(f"phase 1 returned {code}: secret")
    cause.code, cause.fault = code, "refused"
    error = ServerFaultError(f"the device library answered ACL error {code}")
    error.__cause__ = cause
    return error


def reasons(off: TurnedOff) -> dict[str, tuple[tuple[str, ...], str]]:
    """Returns the dtypes and the reason of each operator, which must have one reason; no dtypes stand for all."""
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for each in off.messages():
        assert each.name not in found
        dtypes = (dtype_of_wire(number) for number in each.data_types)
        found[each.name] = tuple(dtype.name for dtype in dtypes if dtype is not None), each.reason
    return found


def dtypes_of(name: str) -> tuple[str, ...]:
    return tuple(OPERATORS[name].leading_input.dtypes[Product.ATLAS_A2])


@pytest.mark.parametrize("product", FEW_PRODUCTS)
async def test_every_dtype_of_every_operator_is_run_once_within_the_time_limit(product: Product) -> None:
    device = HonestDevice()
    assert reasons(await self_test(device, product, TIMEOUT_S)) == {}
    run = []
    for plan, _ in device.executed:
        types = dict(zip((each.name for each in plan.inputs), plan.types, strict=True))
        run.append((plan.spec.name, types[plan.spec.leading].dtype.name))
    expected = {
        (name, dtype) for name, spec in OPERATORS.items() for dtype in spec.leading_input.dtypes.get(product, ())
    }
    assert sorted(run) == sorted(expected)
    assert device.trims == 1
    assert all(time.monotonic() < deadline <= time.monotonic() + TIMEOUT_S for _, deadline in device.executed)


@pytest.mark.parametrize(
    ("product", "factor", "is_off"),
    [
        (Product.ATLAS_TRAINING, 1.001, False),
        (Product.ATLAS_INFERENCE, 1.001, False),
        (Product.ATLAS_INFERENCE, 1.002, True),
        (Product.ATLAS_A2, 1.001, True),
        (Product.ASCEND_950, 1.001, True),
    ],
)
async def test_a_product_is_judged_by_its_own_route(product: Product, factor: float, is_off: bool) -> None:
    """Three roundings to FLOAT16 make 0.0015 of an error in float32, on the products that round to it."""
    name = "adaptive_avg_pool2d_backward"
    device = HonestDevice(changes={name: lambda gradient: gradient * factor}, only="float32")
    assert set(reasons(await self_test(device, product, TIMEOUT_S))) == ({name} if is_off else set())


@pytest.mark.parametrize("value", [0.25, float("nan"), float("inf")])
async def test_one_wrong_element_of_one_dtype_turns_the_operator_off(
    value: float, caplog: pytest.LogCaptureFixture
) -> None:
    device = HonestDevice(3, {WRONG: one_element(value)}, only="float64")
    off = await self_test(device, Product.ATLAS_A2, TIMEOUT_S)
    assert reasons(off) == {WRONG: ((), "device 3 computes float64 wrongly")}
    told = f"(Ascend910B1) fails the self-test of {SYMBOL} (float64), which is turned off: device 3 computes float64"
    assert f"{told} wrongly; 1 of " in caplog.text
    assert caplog.text.count("which is turned off") == caplog.text.count(told) == 1


async def test_an_error_turns_the_operator_off_and_only_the_log_has_the_librarys_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also what no library should do: the runtime's own exceptions, and a workspace that no pool holds."""
    answered = ServerFaultError("the device library answered ACL error 561103")
    changes: dict[str, Exception] = {
        WRONG: caused(answered, "phase 1 returned 561103: secret"),
        OTHER: LimitExceededError("an allocation of 2**62 bytes does not fit"),
        THIRD: ValueError("the library has no data type 0"),
    }
    assert reasons(await self_test(HonestDevice(changes=changes), Product.ATLAS_A2, TIMEOUT_S)) == {
        WRONG: ((), "device 0 fails with float32: the device library answered ACL error 561103"),
        OTHER: ((), "device 0 fails with float32: an allocation of 2**62 bytes does not fit"),
        THIRD: ((), "device 0 fails with float32"),
    }
    assert f"fails the self-test of {SYMBOL} (float32), which is turned off: device 0 fails" in caplog.text
    assert "ACL error 561103; phase 1 returned 561103: secret" in caplog.text
    assert "fails with float32; ValueError('the library has no data type 0')" in caplog.text


async def test_a_refused_dtype_is_turned_off_alone_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    code = 161002
    device = HonestDevice(changes={WRONG: refused(code)}, only="float64")
    off = await self_test(device, Product.ATLAS_A2, TIMEOUT_S)
    assert reasons(off) == {WRONG: (("float64",), f"device 0 refuses it ({code}); {MISSING}")}
    assert off.served_dtypes(OPERATORS[WRONG]) == tuple(each for each in dtypes_of(WRONG) if each != "float64")
    assert f"{MISSING}; phase 1 returned {code}: secret" in caplog.text


async def test_what_is_off_already_is_not_asked_for() -> None:
    off = TurnedOff(Product.ATLAS_A2)
    off.add(OPERATORS[WRONG], "it crashes", "float32")
    off.add(OPERATORS[OTHER], "it hangs")
    device = HonestDevice()
    assert await self_test(device, Product.ATLAS_A2, TIMEOUT_S, off) is off
    run = {(plan.spec.name, plan.types[0].dtype.name) for plan, _ in device.executed}
    assert {dtype for name, dtype in run if name == WRONG} == set(dtypes_of(WRONG)) - {"float32"}
    assert OTHER not in {name for name, _ in run}
    assert reasons(off) == {WRONG: (("float32",), "it crashes"), OTHER: ((), "it hangs")}


async def test_a_server_without_any_right_operator_is_unfit() -> None:
    device = HonestDevice(2, dict.fromkeys(OPERATORS, one_element(9e9)))
    with pytest.raises(
        UnfitDeviceError, match=rf"device 2 \(Ascend910B1\).*{WRONG}: device 2 computes float32 wrongly"
    ):
        await self_test(device, Product.ATLAS_A2, TIMEOUT_S)


@pytest.mark.parametrize("kind", [DeviceLostError, DeadlinePassedError, DeviceMemoryError])
async def test_a_device_that_does_not_answer_is_unfit_and_named(kind: type[AclgradError]) -> None:
    device = HonestDevice(1, {WRONG: caused(kind("sorry"), "phase 2 returned 507015: trap")})
    told = rf"device 1 \(Ascend910B1\) failed the self-test: it does not answer {SYMBOL} \(float32\): .* 507015: trap"
    with pytest.raises(UnfitDeviceError, match=told):
        await self_test(device, Product.ATLAS_A2, TIMEOUT_S)


async def test_a_driver_that_hangs_makes_its_device_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    class HungDevice(HonestDevice):
        async def execute(self, *arguments: Any) -> bytes:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    monkeypatch.setattr(module, "_DRIVER_GRACE_S", 0.0)
    with pytest.raises(UnfitDeviceError, match=r"device 0 .* its driver does not return"):
        await self_test(HungDevice(), Product.ATLAS_A2, 0.05)


async def test_a_mistake_of_the_setup_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that cannot hold a sample, and a spec without a row of the runtime."""
    device = HonestDevice()
    device.pool_limit_bytes = 1
    with pytest.raises(StartError, match=r"holds 1 at most; .*--pool-bytes"):
        await self_test(device, Product.ATLAS_A2, TIMEOUT_S)
    assert device.executed == []
    rows = [spec.symbol for name, spec in OPERATORS.items() if name != WRONG]
    monkeypatch.setattr(module.native, "operator_symbols", lambda: rows)
    with pytest.raises(StartError, match=f"aclgrad_native has no row for {SYMBOL}, .* same version"):
        await self_test(HonestDevice(), Product.ATLAS_A2, TIMEOUT_S)


async def test_a_device_that_keeps_its_memory_is_unfit() -> None:
    device = HonestDevice(4)
    device.trim_error = DeviceLostError("lost")
    with pytest.raises(UnfitDeviceError, match=r"device 4 .* it does not take memory back: lost"):
        await self_test(device, Product.ATLAS_A2, TIMEOUT_S)
