"""A server that asks for the values of every input."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

GRAD = np.ones((1, 2, 2), np.float32)
INPUT = np.zeros((1, 4, 4), np.float32)


@pytest.fixture(scope="module")
def asking_server() -> Iterator[Server]:
    with Server("--shape-only", "off", "--log-level", "debug") as server:
        yield server


@pytest.fixture
def asked(connect: Callable[..., Any], asking_server: Server) -> AnyClient:
    return connect(asking_server.address, retries=0)


async def test_the_server_says_so(asked: AnyClient) -> None:
    operators = await maybe_await(asked.list_operators())
    assert not any(each.shape_only for operator in operators for each in operator.inputs)


async def test_an_array_is_sent_when_it_is_asked_for(asked: AnyClient, asking_server: Server) -> None:
    for refused in (1, 0):
        before = asking_server.log.count("came without values")
        assert (await maybe_await(asked.adaptive_avg_pool2d_backward(GRAD, INPUT))).sum() == 4
        assert asking_server.log.count("came without values") - before == refused


async def test_a_bare_shape_raises(asked: AnyClient) -> None:
    with pytest.raises(aclgrad.InputValuesRequiredError, match="send the array instead of its shape") as caught:
        await maybe_await(asked.adaptive_avg_pool2d_backward(GRAD, (1, 4, 4)))
    assert caught.value.field == "inputs[self]"
    assert caught.value.reason == "INPUT_VALUES_REQUIRED"
    assert (await maybe_await(asked.adaptive_avg_pool2d_backward(GRAD, INPUT))).sum() == 4
