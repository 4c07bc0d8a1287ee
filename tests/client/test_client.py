"""Both clients against a scripted service: what is sent, and for how long."""

from contextlib import suppress
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_batches import add
from .scripted_service import GRADIENT, INPUTS, ONES, REPLY, ScriptedService


async def test_execute_sends_the_call_and_returns_the_gradient(connect: Connect, service: ScriptedService) -> None:
    values = np.arange(6, dtype=np.float16).reshape(1, 2, 3)
    client = connect(service.address)
    gradient = await maybe_await(client.execute("pool", {"b": (4, 5), "a": values}, {"sizes": [1, 2], "flag": False}))
    assert gradient.tolist() == GRADIENT.tolist()
    ((method, request),) = service.requests
    assert method == "/aclgrad.v1.OperatorService/ExecuteOperator"
    expected = pb.ExecuteOperatorRequest(operator="pool")
    expected.inputs.add(name="b", data_type="DATA_TYPE_FLOAT16", shape=[4, 5])
    expected.inputs.add(name="a", data_type="DATA_TYPE_FLOAT16", shape=[1, 2, 3], data=values.tobytes())
    expected.attributes["sizes"].ints_value.values.extend([1, 2])
    expected.attributes["flag"].bool_value = False
    assert pb.ExecuteOperatorRequest.FromString(request) == expected


async def test_a_closed_client_says_so(connect: Connect, service: ScriptedService) -> None:
    client = connect(service.address)
    await maybe_await(client.close())
    with pytest.raises(aclgrad.CallCancelledError, match="the client is closed; make a new client"):
        await maybe_await(client.execute("pool", INPUTS))


async def test_time_limit_of_the_call_goes_before_that_of_the_client(
    connect: Connect, service: ScriptedService
) -> None:
    remaining: list[float] = []

    def note_deadline(context: grpc.ServicerContext) -> bytes:
        remaining.append(context.time_remaining())
        return REPLY

    service.answer = note_deadline
    client = connect(service.address, timeout_s=1000)
    pooled = np.ones((1, 2, 2), np.float32)
    for timeout_s in (aclgrad.DEFAULT, 5000, None):
        await maybe_await(client.execute("pool", INPUTS, timeout_s=timeout_s))
        await maybe_await(client.adaptive_avg_pool2d_backward(ONES, pooled, timeout_s=timeout_s))
        with suppress(aclgrad.ServerFaultError):  # the reply is that of another method
            await maybe_await(client.list_operators(timeout_s=timeout_s))
        batch = client.batch()
        batch.execute("pool", INPUTS)
        with suppress(aclgrad.ServerFaultError):
            await maybe_await(batch.run(timeout_s=timeout_s))
    # Deadlines travel rounded to a few digits.
    assert all(900 < each < 1100 for each in remaining[:4])
    assert all(4900 < each < 5100 for each in remaining[4:8])
    # gRPC's own word for no deadline.
    assert all(each is None or each > 1e8 for each in remaining[8:])
    assert len(remaining) == 12


PAIRS = [
    ("x-tenant", "vision"),
    ("authorization", "Bearer abc=="),
    ("x-tag", "1"),
    ("x-tag", "2"),
    ("x-raw-bin", b"\0\xff"),
]
SECRET = "s3cret"
WRONG: dict[str, tuple[Any, str]] = {
    "upper_case": ([("X-Tenant", SECRET)], "key 'X-Tenant'; use lower-case letters"),
    "space_in_key": ([("x tenant", SECRET)], "key 'x tenant'; use lower-case"),
    "empty_key": ([("", SECRET)], "key ''; use lower-case"),
    "pseudo_header": ([(":path", SECRET)], "key ':path'; use lower-case"),
    "key_is_no_text": ([(b"x-tenant", SECRET)], "give text as keys"),
    "of_grpc": ([("grpc-timeout", SECRET)], "which belongs to gRPC; use another name"),
    "of_http": ([("content-type", SECRET)], "which belongs to gRPC"),
    "request_id": ([("x-request-id", SECRET)], r"which the client sets; use `with aclgrad.request_id\("),
    "bytes": ([("x-tenant", SECRET.encode())], "is a bytes; give text, or let the key end in -bin"),
    "text_for_bytes": ([("x-raw-bin", SECRET)], "is a str; give bytes"),
    "number": ([("x-tenant", 3)], "is a int; give text"),
    "two_lines": ([("x-tenant", f"{SECRET}\nx-admin: 1")], "holds other characters than a header takes"),
    "umlaut": ([("x-tenant", f"{SECRET}ü")], "holds other characters"),
    "spaces_around": ([("x-tenant", f" {SECRET}")], "holds other characters"),
    "too_much": ([("x-tenant", 8000 * "x")], "metadata has 8040 bytes, 32 for each pair included; give at most 7168"),
    "no_pairs": (["x-tenant"], "give a mapping or pairs"),
    "text": ("ab", "give a mapping or pairs"),
    "none": (None, "metadata is a NoneType; give a mapping or pairs"),
}


@pytest.mark.parametrize("form", [list, dict, iter])
async def test_pairs_go_with_each_call(connect: Connect, service: ScriptedService, form: Any) -> None:
    expected = sorted(dict(PAIRS).items() if form is dict else PAIRS)
    seen: list[list[tuple[str, str | bytes]]] = []

    def note(context: grpc.ServicerContext) -> bytes:
        keys = {key for key, _ in PAIRS}
        seen.append(sorted((key, value) for key, value in context.invocation_metadata() if key in keys))
        return REPLY if service.current.method.endswith("ExecuteOperator") else b""

    service.answer = note
    client = connect(service.address, metadata=form(PAIRS))
    await maybe_await(client.execute("pool", INPUTS))
    await maybe_await(client.list_operators())
    with pytest.raises(aclgrad.ServerFaultError):
        await maybe_await(add(client.batch(), [1]).run())
    assert seen == [expected] * 3
    assert "Bearer" not in repr(client)


@pytest.mark.parametrize(("given", "problem"), WRONG.values(), ids=WRONG)
def test_what_grpc_would_refuse_is_named_without_its_value(given: Any, problem: str) -> None:
    with pytest.raises(aclgrad.InvalidSettingError, match=problem) as caught:
        aclgrad.Client(metadata=given)
    assert caught.value.field == "metadata"
    assert SECRET not in str(caught.value)


async def test_the_wrong_kind_of_with_is_told_the_right_one() -> None:
    told = r"^an AsyncClient is entered by `async with`; write that, or make an aclgrad.Client$"
    with pytest.raises(TypeError, match=told), aclgrad.AsyncClient("127.0.0.1:1"):  # type: ignore[attr-defined]
        pass
    with pytest.raises(TypeError, match=r"^a Client is entered by `with`; write that, or make an aclgrad.Async"):
        async with aclgrad.Client("127.0.0.1:1"):  # type: ignore[attr-defined]
            pass
