"""Both clients: metadata of the caller's own."""

from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await

from .scripted_batches import add
from .scripted_service import REPLY, ScriptedService

ONES = np.ones((1, 1, 1), np.float32)
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
async def test_pairs_go_with_each_call(connect: Callable[..., Any], service: ScriptedService, form: Any) -> None:
    expected = sorted(dict(PAIRS).items() if form is dict else PAIRS)
    seen: list[list[tuple[str, str | bytes]]] = []

    def note(context: grpc.ServicerContext) -> bytes:
        keys = {key for key, _ in PAIRS}
        seen.append(sorted((key, value) for key, value in context.invocation_metadata() if key in keys))
        return REPLY if service.current.method.endswith("ExecuteOperator") else b""

    service.answer = note
    client = connect(service.address, metadata=form(PAIRS))
    await maybe_await(client.execute("pool", {"a": ONES}))
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
