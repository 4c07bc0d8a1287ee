"""Calls that a client sends in chunks by itself, against servers of both kinds."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad import _chunked, _message_limit
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product
from tests.e2e.fault_plans import assert_no_misuse, write_config
from tools.calling import AnyClient, maybe_await, wait_until
from tools.serving import Server

Connect = Callable[..., AnyClient]
CASES = list({(typed.spec.name, typed.dtype): typed for typed in typed_cases(Product.ATLAS_A2)}.values())
"""One call of every operator with every dtype."""
LARGE = np.random.default_rng(1).standard_normal((3, 1024, 1024), np.float32)
"""12 MiB."""
PROMPTLY_S = 30
CHUNKED = "ExecuteOperatorChunked"


@pytest.fixture(scope="module", params=[True, False], ids=["host_pointers", "copies"])
def chunk_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("chunks")
    config = write_config(folder, host_pointers=request.param)
    with Server("--acl-config", config, "--log-level", "debug") as server:
        yield server
    assert_no_misuse(folder)


@pytest.fixture
def chunks_above(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the size of calls above which both clients send chunks."""
    return lambda size_bytes: monkeypatch.setattr(_message_limit, "CHUNKED_ABOVE_BYTES", size_bytes)


async def call(client: AnyClient, typed: TypedCase) -> Any:
    return await maybe_await(client.execute(typed.spec.name, typed.arrays(), typed.case.attributes))


async def test_every_dtype_gives_the_bits_of_one_message(
    connect: Connect, chunk_server: Server, chunks_above: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chunked, "_INLINE_BYTES", 0)
    monkeypatch.setattr(_message_limit, "DEFAULT_CHUNK_BYTES", 1021)
    client = connect(chunk_server.address)
    before = chunk_server.log.count("ExecuteOperatorChunked ok")
    for typed in CASES:
        whole = await call(client, typed)
        chunks_above(-1)
        gradient = await call(client, typed)
        chunks_above(2**40)
        assert (gradient.dtype, gradient.shape, gradient.tobytes()) == (whole.dtype, whole.shape, whole.tobytes())
        assert gradient.flags.owndata
        assert gradient.flags.writeable
    wait_until(lambda: chunk_server.log.count("ExecuteOperatorChunked ok") == before + len(CASES))


@pytest.mark.parametrize(
    ("grad_output", "shape"),
    [
        (LARGE, (3, 5, 7)),
        (np.asfortranarray(LARGE), (3, 5, 7)),
        (LARGE[:, ::-1, ::-1], (3, 2, 2)),
        (LARGE[:, :2, :3], LARGE.shape),
        (LARGE, LARGE.shape),
        (LARGE.astype(np.float16), (3, 1024, 2048)),
    ],
    ids=["large_request", "fortran", "reversed", "large_reply", "both", "float16"],
)
async def test_large_calls_give_the_bits_of_one_message(
    connect: Connect,
    chunk_server: Server,
    chunks_above: Callable[[int], None],
    grad_output: np.ndarray,
    shape: tuple[int, ...],
) -> None:
    client = connect(chunk_server.address, max_message_bytes=2**24)
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))
    chunks_above(2**40)
    whole = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))
    assert gradient.tobytes() == whole.tobytes()


REFUSED: dict[str, tuple[tuple[str, dict[str, Any]], type[aclgrad.AclgradError]]] = {
    "operator": (("no_such", {"a": LARGE}), aclgrad.UnknownOperatorError),
    "field": (("adaptive_avg_pool2d_backward", {"grad_output": LARGE, "self": (4, 2, 2)}), aclgrad.InvalidFieldError),
    "name": (("adaptive_avg_pool2d_backward", {"grad": LARGE, "self": (3, 2, 2)}), aclgrad.InvalidFieldError),
    "size": (
        ("adaptive_avg_pool2d_backward", {"grad_output": LARGE, "self": (3, 2**16, 2**16)}),
        aclgrad.LimitExceededError,
    ),
}


@pytest.mark.parametrize(("given", "kind"), REFUSED.values(), ids=REFUSED)
async def test_what_is_refused_is_told_before_it_was_sent(
    connect: Connect, chunk_server: Server, given: tuple[str, dict[str, Any]], kind: type[aclgrad.AclgradError]
) -> None:
    client = connect(chunk_server.address)
    start = time.monotonic()
    for _ in range(3):
        with pytest.raises(kind) as caught:
            await maybe_await(client.execute(*given))
        assert caught.value.request_id
    assert time.monotonic() - start < PROMPTLY_S
    assert (await maybe_await(client.server_status())).queue.running_bytes == 0


async def test_values_that_the_server_wants(connect: Connect) -> None:
    with Server("--shape-only", "off") as server:
        client = connect(server.address, retries=0)
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(LARGE[:, :1, :1], np.zeros_like(LARGE)))
        assert gradient.shape == LARGE.shape
        with pytest.raises(aclgrad.InputValuesRequiredError):
            await maybe_await(client.adaptive_avg_pool2d_backward(LARGE[:, :1, :1], LARGE.shape))


@pytest.fixture(scope="module")
def narrow_server() -> Iterator[Server]:
    with Server("--max-message-bytes", "1000000", "--log-level", "debug") as server:
        yield server


@pytest.mark.parametrize(
    ("grad_output", "shape"),
    [
        (LARGE[:1, :600, :500], (1, 3, 2)),
        (LARGE[:1, :2, :3], (1, 600, 500)),
        (LARGE, LARGE.shape),
    ],
    ids=["request", "reply", "larger_than_a_chunk"],
)
async def test_a_server_with_smaller_messages(
    connect: Connect,
    server: Server,
    narrow_server: Server,
    grad_output: np.ndarray,
    shape: tuple[int, ...],
) -> None:
    """The client learns the limit from a refusal and sends no second message that exceeds it."""
    expected = await maybe_await(connect(server.address).adaptive_avg_pool2d_backward(grad_output, shape))
    client = connect(narrow_server.address, retries=0)
    ended, done = narrow_server.log.count(f"{CHUNKED} "), narrow_server.log.count(f"{CHUNKED} ok")
    for _ in range(2):
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))
        assert np.array_equal(gradient, expected)
    wait_until(lambda: narrow_server.log.count(f"{CHUNKED} ok") == done + 2)
    assert narrow_server.log.count(f"{CHUNKED} ") <= ended + 3, "one attempt may have been refused"
