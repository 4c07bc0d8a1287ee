"""Arguments that make no sense are refused by name, before gRPC or numpy make something of them."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import INPUTS, ONES, REPLY, ScriptedService

BAD_SETTINGS: dict[str, list[Any]] = {
    "target": [None, 50051, "", b"127.0.0.1:50051", [], "a\0:1", "\udc80:1", f"unix:/{'a' * 107}"],
    "timeout_s": ["5", float("nan"), np.float64("nan"), [1], True, b"1", 1j],
    "retries": [-1, 1.5, "3", None, float("nan"), True],
    "connect_timeout_s": [-1, "3", None, float("nan"), True],
    "max_message_bytes": [-1, 0, 1.5, "x", None, 2**31, True],
    "on_call": [3, "print"],
}


async def test_a_bad_setting_is_refused_when_the_client_is_made(connect: Connect) -> None:
    for name, values in BAD_SETTINGS.items():
        for value in values:
            with pytest.raises(aclgrad.InvalidSettingError, match=rf"^{name} is .*; give ") as caught:
                connect(**({"target": "127.0.0.1:1"} | {name: value}))
            assert caught.value.field == name
            assert repr(value) in str(caught.value)


PASSWORD = ("grpc.http_proxy", "http://trainer:secret@127.0.0.1:1")
BAD_OPTIONS: list[tuple[Any, str]] = [
    (5, "is a int"),
    (dict([PASSWORD]), "is a dict"),
    ([PASSWORD, ("grpc.keepalive_time_ms",)], "is a list with a tuple"),
    ([PASSWORD, ("\udc80", 1)], r"is a list with ('\udc80', 1)"),
    ([PASSWORD, "grpc.keepalive_time_ms"], "is a list with a str"),
    *(
        ([PASSWORD, ("grpc.keepalive_time_ms", value)], f"is a list with ('grpc.keepalive_time_ms', {value!r})")
        for value in (5.0, None, 2**31)
    ),
    ([("grpc.http_proxy", b"http://trainer:secret@127.0.0.1:1")], "is a list with ('grpc.http_proxy', a bytes)"),
    ([("grpc.http_proxy", "http://trainer:secret@127.0.0.1:1\n")], "is a list with ('grpc.http_proxy', a str)"),
]


@pytest.mark.parametrize(("options", "problem"), BAD_OPTIONS)
async def test_only_the_option_that_is_wrong_is_named(connect: Connect, options: Any, problem: str) -> None:
    with pytest.raises(aclgrad.InvalidSettingError) as caught:
        connect("127.0.0.1:1", channel_options=options)
    assert str(caught.value).startswith(f"channel_options {problem}; give pairs of ")
    assert caught.value.field == "channel_options"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("way", ["execute", "list_operators", "server_status", "batch"])
async def test_bad_time_limit_of_a_call(connect: Connect, service: ScriptedService, way: str) -> None:
    client = connect(service.address)
    batch = client.batch()
    batch.execute("pool", INPUTS)
    ways: dict[str, Callable[[Any], Any]] = {
        "execute": lambda value: client.execute("pool", INPUTS, timeout_s=value),
        "list_operators": lambda value: client.list_operators(timeout_s=value),
        "server_status": lambda value: client.server_status(timeout_s=value),
        "batch": lambda value: batch.run(timeout_s=value),
    }
    for value in BAD_SETTINGS["timeout_s"]:
        with pytest.raises(aclgrad.InvalidSettingError, match=r"^timeout_s is .*; give ") as caught:
            await maybe_await(ways[way](value))
        assert caught.value.field == "timeout_s"
    assert not service.requests


NUMBERS: list[dict[str, Any]] = [
    {"timeout_s": np.float32(100), "retries": np.int64(2), "max_message_bytes": np.int32(2**20)},
    {"timeout_s": 10**12, "retries": 0, "max_message_bytes": 2**31 - 1},
    {"timeout_s": float("inf"), "connect_timeout_s": np.int8(3)},
    {"timeout_s": Decimal(100), "connect_timeout_s": float("inf")},
    {"timeout_s": None},
]


async def test_numbers_of_every_kind_are_numbers(connect: Connect, service: ScriptedService) -> None:
    service.answer = lambda context: REPLY
    for settings in NUMBERS:
        client = connect(service.address, **settings)
        gradient = client.execute("pool", INPUTS, timeout_s=settings.get("timeout_s"))
        assert (await maybe_await(gradient)).size == 2


async def test_no_time_left_is_no_mistake(connect: Connect, service: ScriptedService) -> None:
    """A caller that computes what is left of its own limit may find less than nothing."""
    with pytest.raises(aclgrad.DeadlinePassedError):
        await maybe_await(connect(service.address).execute("pool", INPUTS, timeout_s=-1.5))


POOL, ROI = "max_pool2d_with_mask_backward", "roi_align_v2_backward"
MASKED = np.ma.MaskedArray(np.ones((1, 2, 2), np.float32), mask=np.eye(2, dtype=bool)[None])
NO_ATTRIBUTE = "give a bool, a 64-bit integer"


def with_attribute(operator: str, name: Any, value: Any) -> tuple[Any, ...]:
    spec = OPERATORS.get(operator)
    return operator, {each.name: ONES for each in spec.inputs} if spec else {"a": ONES}, {name: value}


# What is given to `execute`, the field that is named, and what is said of it.
BAD_CALLS: list[tuple[tuple[Any, ...], str, str]] = [
    (("pool", [ONES]), "inputs", "is a list.*; give "),
    (("pool", ONES), "inputs", "is a ndarray.*; give "),
    (("pool", None), "inputs", "is a NoneType.*; give "),
    (("pool", [("a", ONES)]), "inputs", "is a list.*; give "),
    (("pool", INPUTS, [1]), "attributes", "is a list.*; give "),
    (("pool", INPUTS, 3), "attributes", "is a int.*; give "),
    (("pool", INPUTS, "padding"), "attributes", "is a str.*; give "),
    ((None, {"a": ONES}), "operator", "has the name None.*; give "),
    ((["pool"], {"a": ONES}), "operator", r"has the name \['pool'\].*; give "),
    ((3, {"a": ONES}), "operator", "has the name 3"),
    (("\ud800", {"a": ONES}), "operator", ""),
    (("pool", {("a", "b"): ONES}), "inputs", r"has the name \('a', 'b'\).*; give "),
    (("pool", {3: ONES}), "inputs", "has the name 3"),
    (("pool", {"self": (2, 3)}), "inputs[self]", ""),
    (("pool", {"a": [[1.0], [2.0, 3.0]]}), "inputs[a]", ""),
    (("pool", {"a": ONES, "b": (2**63, 1)}), "inputs[b].shape", ""),
    (("adaptive_avg_pool2d_backward", {"grad_output": MASKED, "self": ONES}), "inputs[grad_output]", r".*filled\("),
    # The shape alone is sent, but which inputs these are is the server's business.
    (("adaptive_avg_pool2d_backward", {"grad_output": ONES, "self": MASKED}), "inputs[self]", ".*has 2 masked values"),
    (with_attribute("pool", 3, 1), "attributes", ""),
    (with_attribute("pool", "\udcff", 1), "attributes", ""),
    (with_attribute("pool", "size", b"ab"), "attributes[size]", f"(?s:.*){NO_ATTRIBUTE}"),
    (with_attribute("pool", "size", "\ud800"), "attributes[size]", f"(?s:.*){NO_ATTRIBUTE}"),
    (with_attribute("pool", "size", 2**63), "attributes[size]", f"(?s:.*){NO_ATTRIBUTE}"),
    (with_attribute("pool", "size", (1.5, 2.0)), "attributes[size]", f"(?s:.*){NO_ATTRIBUTE}"),
    (with_attribute(ROI, "input_shape", np.array([1.0, 3.0])), "attributes[input_shape]", f"(?s:.*){NO_ATTRIBUTE}"),
    (with_attribute(ROI, "input_shape", np.ones((2, 2), int)), "attributes[input_shape]", f"(?s:.*){NO_ATTRIBUTE}"),
    (with_attribute(ROI, "input_shape", {1, 3, 8}), "attributes[input_shape]", f"(?s:.*){NO_ATTRIBUTE}"),
    (with_attribute(ROI, "spatial_scale", 10**400), "attributes[spatial_scale]", f"(?s:.*){NO_ATTRIBUTE}"),
    (with_attribute(POOL, "kernel_size", None), "attributes[kernel_size]", f"(?s:.*){NO_ATTRIBUTE}"),
    (with_attribute(POOL, "kernel_size", np.array([None])), "attributes[kernel_size]", f"(?s:.*){NO_ATTRIBUTE}"),
]


@pytest.mark.parametrize("shape_only", [True, False])
async def test_a_call_that_is_put_together_wrongly(
    connect: Connect, service: ScriptedService, shape_only: bool
) -> None:
    client = connect(service.address, shape_only=shape_only)
    batch = client.batch()
    for call, field, problem in BAD_CALLS:
        for target in (client, batch):
            with pytest.raises(aclgrad.InvalidFieldError, match=f"^{re.escape(field)} ?{problem}") as caught:
                await maybe_await(target.execute(*call))
            assert caught.value.field == field
    assert len(batch) == 0
    assert not service.requests


@pytest.mark.parametrize("mask", [np.ma.nomask, np.zeros((1, 2, 2), bool)], ids=["nomask", "nothing_masked"])
async def test_an_array_that_could_be_masked_and_is_not(connect: Connect, service: ScriptedService, mask: Any) -> None:
    array = np.ma.MaskedArray(np.ones((1, 2, 2), np.float32), mask=mask)
    await maybe_await(connect(service.address).execute("pool", {"a": array}))
    assert array.tobytes() in service.requests[0][1]
