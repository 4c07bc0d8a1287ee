"""Both clients: arguments that make no sense are refused by name, before gRPC or numpy make something of them."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await

from .scripted_service import REPLY, ScriptedService

ONES = np.ones((1, 1, 1), np.float32)
Connect = Callable[..., Any]

BAD_SETTINGS: dict[str, list[Any]] = {
    "target": [None, 50051, "", b"127.0.0.1:50051", ["127.0.0.1:50051"], "a\0:1", "\udc80:1", f"unix:/{'a' * 107}"],
    "timeout_s": ["5", float("nan"), np.float64("nan"), [1], True, b"1", 1j],
    "retries": [-1, 1.5, "3", None, float("nan"), True],
    "connect_timeout_s": [-1, "3", None, float("nan"), True],
    "max_message_bytes": [-1, 0, 1.5, "x", None, 2**31, True],
    "on_call": [3, "print"],
    "compression": ["zip"],
    "channel_options": [
        *(5, [("grpc.keepalive_time_ms",)], {"grpc.keepalive_time_ms": 5}, [("\udc80", 1)]),
        *([("grpc.keepalive_time_ms", value)] for value in (5.0, None, 2**31, b"5")),
    ],
}
bad_settings = pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(name, value, id=f"{name}-{value!r}") for name, values in BAD_SETTINGS.items() for value in values],
)


@bad_settings
async def test_bad_setting_is_refused_when_the_client_is_made(connect: Connect, name: str, value: Any) -> None:
    settings = {"target": "127.0.0.1:1"} | {name: value}
    with pytest.raises(aclgrad.InvalidSettingError, match=rf"^{name} is .*; give ") as caught:
        connect(**settings)
    assert caught.value.field == name
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", BAD_SETTINGS["timeout_s"], ids=repr)
@pytest.mark.parametrize("way", ["execute", "list_operators", "server_status", "batch"])
async def test_bad_time_limit_of_a_call(connect: Connect, service: ScriptedService, way: str, value: Any) -> None:
    client = connect(service.address)
    batch = client.batch()
    batch.execute("pool", {"a": ONES})
    ways = {
        "execute": lambda: client.execute("pool", {"a": ONES}, timeout_s=value),
        "list_operators": lambda: client.list_operators(timeout_s=value),
        "server_status": lambda: client.server_status(timeout_s=value),
        "batch": lambda: batch.run(timeout_s=value),
    }
    with pytest.raises(aclgrad.InvalidSettingError, match=r"^timeout_s is .*; give ") as caught:
        await maybe_await(ways[way]())
    assert caught.value.field == "timeout_s"
    assert not service.requests


@pytest.mark.parametrize(
    "settings",
    [
        {"timeout_s": np.float32(100), "retries": np.int64(2), "max_message_bytes": np.int32(2**20)},
        {"timeout_s": 10**12, "retries": 0, "max_message_bytes": 2**31 - 1},
        {"timeout_s": float("inf"), "connect_timeout_s": np.int8(3)},
        {"timeout_s": Decimal(100), "connect_timeout_s": float("inf")},
        {"timeout_s": None},
    ],
    ids=str,
)
async def test_numbers_of_every_kind_are_numbers(
    connect: Connect, service: ScriptedService, settings: dict[str, Any]
) -> None:
    service.answer = lambda context: REPLY
    client = connect(service.address, **settings)
    assert (await maybe_await(client.execute("pool", {"a": ONES}, timeout_s=settings.get("timeout_s")))).size == 2


async def test_no_time_left_is_no_mistake(connect: Connect, service: ScriptedService) -> None:
    """A caller that computes what is left of its own limit may find less than nothing."""
    with pytest.raises(aclgrad.DeadlinePassedError):
        await maybe_await(connect(service.address).execute("pool", {"a": ONES}, timeout_s=-1.5))


BAD_CALLS: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "inputs_list": (("pool", [ONES]), "inputs", "is a list"),
    "inputs_array": (("pool", ONES), "inputs", "is a ndarray"),
    "inputs_none": (("pool", None), "inputs", "is a NoneType"),
    "inputs_pairs": (("pool", [("a", ONES)]), "inputs", "is a list"),
    "attributes_list": (("pool", {"a": ONES}, [1]), "attributes", "is a list"),
    "attributes_number": (("pool", {"a": ONES}, 3), "attributes", "is a int"),
    "attributes_text": (("pool", {"a": ONES}, "padding"), "attributes", "is a str"),
    "name_none": ((None, {"a": ONES}), "operator", "has the name None"),
    "name_list": ((["pool"], {"a": ONES}), "operator", r"has the name \['pool'\]"),
    "input_name": (("pool", {("a", "b"): ONES}), "inputs", r"has the name \('a', 'b'\)"),
}


@pytest.mark.parametrize("way", ["call", "batch"])
@pytest.mark.parametrize(("call", "field", "problem"), BAD_CALLS.values(), ids=BAD_CALLS)
async def test_a_call_that_is_put_together_wrongly(
    connect: Connect, service: ScriptedService, call: tuple[Any, ...], field: str, problem: str, way: str
) -> None:
    client = connect(service.address)
    target = client if way == "call" else client.batch()
    with pytest.raises(aclgrad.InvalidFieldError, match=rf"^{field} {problem}.*; give ") as caught:
        await maybe_await(target.execute(*call))
    assert caught.value.field == field
    assert not service.requests


MASKED = np.ma.MaskedArray(np.ones((1, 2, 2), np.float32), mask=np.eye(2, dtype=bool)[None])


@pytest.mark.parametrize("shape_only", [True, False])
@pytest.mark.parametrize("name", ["grad_output", "self"])
async def test_masked_values_are_refused(
    connect: Connect, service: ScriptedService, name: str, shape_only: bool
) -> None:
    """Of an input whose shape alone is sent, too: which inputs these are is the server's business."""
    client = connect(service.address, shape_only=shape_only)
    inputs = {"grad_output": ONES, "self": ONES} | {name: MASKED}
    with pytest.raises(aclgrad.InvalidFieldError, match=r"has 2 masked values.*filled\(") as caught:
        await maybe_await(client.execute("adaptive_avg_pool2d_backward", inputs))
    assert caught.value.field == f"inputs[{name}]"
    assert not service.requests


@pytest.mark.parametrize("mask", [np.ma.nomask, np.zeros((1, 2, 2), bool)], ids=["nomask", "nothing_masked"])
async def test_an_array_that_could_be_masked_and_is_not(connect: Connect, service: ScriptedService, mask: Any) -> None:
    array = np.ma.MaskedArray(np.ones((1, 2, 2), np.float32), mask=mask)
    await maybe_await(connect(service.address).execute("pool", {"a": array}))
    assert array.tobytes() in service.requests[0][1]
