"""`client.batch()` of both clients against servers of both kinds: what each call gives is what it gives alone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import typed_cases
from aclgrad.products import Product
from tests.e2e.fault_plans import assert_no_misuse, once, write_config
from tools.calling import AnyClient, maybe_await, wait_until
from tools.serving import Server

Connect = Callable[..., AnyClient]
CASES = list(typed_cases(Product.ATLAS_A2))
"""Every case of all five operators with every dtype."""
GRAD = np.ones((1, 2, 2), np.float32)
MESSAGE_BYTES = 100_000


@pytest.fixture(scope="module", params=[True, False], ids=["host_pointers", "copies"])
def batch_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("batches")
    with Server("--acl-config", write_config(folder, host_pointers=request.param)) as server:
        yield server
    assert_no_misuse(folder)


async def test_every_case_gives_the_bits_of_a_call_of_its_own(connect: Connect, batch_server: Server) -> None:
    client = connect(batch_server.address)
    batch = client.batch()
    alone = []
    for typed in CASES:
        batch.execute(typed.spec.name, typed.arrays(), typed.case.attributes)
        alone.append(await maybe_await(client.execute(typed.spec.name, typed.arrays(), typed.case.attributes)))
    assert {typed.spec.name for typed in CASES} == {each.name for each in await maybe_await(client.list_operators())}
    for gradient, expected in zip(await maybe_await(batch.run()), alone, strict=True):
        assert (gradient.dtype, gradient.shape) == (expected.dtype, expected.shape)
        assert gradient.tobytes() == expected.tobytes()
        assert gradient.flags.owndata
        assert gradient.flags.writeable


@pytest.mark.parametrize("place", [0, 40, 63])
async def test_one_bad_call_among_63_good(connect: Connect, batch_server: Server, place: int) -> None:
    batch = connect(batch_server.address).batch()
    for number in range(64):
        batch.adaptive_avg_pool2d_backward(number * GRAD, (1, 4, 4) if number != place else (2, 4, 4))
    outcomes = await maybe_await(batch.run(return_errors=True))
    error = outcomes[place]
    assert isinstance(error, aclgrad.InvalidFieldError)
    assert error.request_id
    assert [each.sum() for each in outcomes if each is not error] == [4 * n for n in range(64) if n != place]
    with pytest.raises(aclgrad.InvalidFieldError):
        await maybe_await(batch.run())


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    with Server("--max-message-bytes", str(MESSAGE_BYTES), "--log-level", "debug") as server:
        yield server


SIZES = {"requests": (120, 4), "replies": (4, 120), "both": (120, 120)}
"""Width of the gradient and of the input of calls of which two exceed a message together."""


@pytest.mark.parametrize(("grad_size", "size"), SIZES.values(), ids=SIZES)
async def test_a_batch_larger_than_the_servers_message(
    connect: Connect, server: Server, small_server: Server, grad_size: int, size: int
) -> None:
    """The client learns the limit from one refusal and sends several messages."""
    rng = np.random.default_rng(3)
    calls = [(rng.standard_normal((1, grad_size, grad_size), np.float32), (1, size, size)) for _ in range(5)]
    alone = connect(server.address)
    expected = [await maybe_await(alone.adaptive_avg_pool2d_backward(*call)) for call in calls]
    batch = connect(small_server.address, retries=0).batch()
    for call in calls:
        batch.adaptive_avg_pool2d_backward(*call)
    done = small_server.log.count("BatchExecuteOperators ok")
    for gradient, each in zip(await maybe_await(batch.run()), expected, strict=True):
        assert np.array_equal(gradient, each)
    wait_until(lambda: small_server.log.count("BatchExecuteOperators ok") == done + 5)


@pytest.mark.parametrize(("grad_size", "size"), [(200, 4), (4, 200), (200, 200)], ids=SIZES)
@pytest.mark.parametrize("max_message_bytes", [2**24, MESSAGE_BYTES], ids=["learned", "known"])
async def test_calls_of_a_batch_that_alone_exceed_a_message(
    connect: Connect, server: Server, small_server: Server, grad_size: int, size: int, max_message_bytes: int
) -> None:
    large = np.random.default_rng(4).standard_normal((1, grad_size, grad_size), np.float32)
    shape = (1, size, size)
    expected = await maybe_await(connect(server.address).adaptive_avg_pool2d_backward(large, shape))
    batch = connect(small_server.address, retries=0, max_message_bytes=max_message_bytes).batch()
    batch.adaptive_avg_pool2d_backward(GRAD, (1, 4, 4))
    batch.adaptive_avg_pool2d_backward(large, shape)
    batch.adaptive_avg_pool2d_backward(GRAD, (2, 4, 4))
    batch.adaptive_avg_pool2d_backward(large, (2, size, size))
    batch.adaptive_avg_pool2d_backward(2 * GRAD, (1, 4, 4))
    first, gradient, bad, bad_large, last = await maybe_await(batch.run(return_errors=True))
    assert np.array_equal(gradient, expected)
    assert (first.sum(), last.sum()) == (4, 8)
    assert isinstance(bad, aclgrad.InvalidFieldError)
    assert isinstance(bad_large, aclgrad.InvalidFieldError)


async def test_more_calls_than_a_message_may_have(connect: Connect, server: Server) -> None:
    batch = connect(server.address).batch()
    for number in range(5000):
        batch.adaptive_avg_pool2d_backward(number * GRAD, (1, 4, 4) if number != 4500 else (2, 4, 4))
    outcomes = await maybe_await(batch.run(return_errors=True))
    assert isinstance(outcomes.pop(4500), aclgrad.InvalidFieldError)
    assert [each.sum() for each in outcomes] == [4 * number for number in range(5000) if number != 4500]


@pytest.fixture(scope="module")
def asking_server() -> Iterator[Server]:
    with Server("--shape-only", "off") as server:
        yield server


async def test_shapes_alone_on_a_server_that_wants_values(connect: Connect, asking_server: Server) -> None:
    array = np.zeros((1, 4, 4), np.float32)
    batch = connect(asking_server.address, retries=0).batch()
    for shape_or_array in (array, (1, 4, 4), array, array):
        batch.adaptive_avg_pool2d_backward(GRAD, shape_or_array)
    batch.replication_pad2d_backward(np.ones((1, 6, 6), np.float32), array, (1, 1, 1, 1))
    outcomes = await maybe_await(batch.run(return_errors=True))
    error = outcomes.pop(1)
    assert isinstance(error, aclgrad.InputValuesRequiredError)
    assert error.field == "inputs[self]"
    assert [each.sum() for each in outcomes] == [4, 4, 4, 36]


@once
async def test_a_call_that_is_too_late_fails_and_its_neighbours_do_not(connect: Connect, tmp_path: Path) -> None:
    fault: dict[str, Any] = {"kind": "hang", "at": 2, "duration_ms": 1500}
    config = write_config(tmp_path, fault, host_pointers=True)
    with Server("--acl-config", config, "--call-timeout-s", "0.5") as server:
        batch = connect(server.address, retries=0).batch()
        for _ in range(4):
            batch.adaptive_avg_pool2d_backward(GRAD, (1, 4, 4))
        outcomes = await maybe_await(batch.run(return_errors=True))
        late = [each for each in outcomes if isinstance(each, aclgrad.AclgradError)]
        assert [type(each) for each in late] == [aclgrad.DeadlinePassedError]
        assert all(each.sum() == 4 for each in outcomes if each is not late[0])
