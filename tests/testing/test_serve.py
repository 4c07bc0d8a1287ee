"""The server of `aclgrad.testing`: it answers as `aclgrad-server` does, and fails on request."""

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
import aclgrad.testing
from aclgrad.operators.cases import TypedCase, arrays_of, first_cases, typed_cases
from aclgrad.products import Product
from aclgrad.reference import define
from aclgrad.testing import TestServer

GRAD = np.ones((3, 7, 7), np.float32)
SHAPE = (3, 14, 14)
SMALL_MESSAGE = 2**16


@pytest.fixture
def testing() -> Iterator[TestServer]:
    with aclgrad.testing.serve() as server:
        yield server


@pytest.fixture
def client(testing: TestServer) -> Iterator[aclgrad.Client]:
    with aclgrad.Client(testing.target) as client:
        yield client


@pytest.mark.parametrize("typed", list(first_cases(Product.ATLAS_A2))[:4], ids=str)
def test_it_computes_with_the_definitions(client: aclgrad.Client, typed: TypedCase) -> None:
    found = client.execute(typed.spec.name, typed.arrays(), typed.attributes)
    expected = define(typed.spec.name, typed.arrays(), typed.attributes)
    for each, truth in zip(arrays_of(found), arrays_of(expected), strict=True):
        np.testing.assert_array_equal(each, truth.astype(each.dtype))


def test_a_batch_has_a_result_or_an_error_for_each_call(testing: TestServer, client: aclgrad.Client) -> None:
    batch = client.batch()
    for size in (14, 0, 21):
        batch.adaptive_avg_pool2d_backward(GRAD, (3, size, size) if size else (3,))
    good, bad, other = batch.run(return_errors=True)
    assert (good.shape, other.shape) == ((3, 14, 14), (3, 21, 21))
    assert isinstance(bad, aclgrad.InvalidFieldError)
    assert testing.calls == ["adaptive_avg_pool2d_backward"] * 2


def test_a_large_call_goes_in_chunks() -> None:
    grad = np.random.default_rng(0).standard_normal((16, 60, 60)).astype(np.float32)
    shape = (16, 120, 120)
    with (
        aclgrad.testing.serve(max_message_bytes=SMALL_MESSAGE) as testing,
        aclgrad.Client(testing.target, max_message_bytes=SMALL_MESSAGE) as client,
    ):
        found = client.adaptive_avg_pool2d_backward(grad, shape)
    np.testing.assert_allclose(found, grad.repeat(2, -1).repeat(2, -2) / 4, rtol=1e-6)


@pytest.mark.parametrize("error", [aclgrad.ServerFaultError("broken"), aclgrad.DeadlinePassedError("late")])
def test_a_failure_that_is_not_retried_is_raised(
    testing: TestServer, client: aclgrad.Client, error: aclgrad.AclgradError
) -> None:
    testing.fail(error)
    with pytest.raises(type(error), match=error.message) as caught:
        client.adaptive_avg_pool2d_backward(GRAD, SHAPE)
    assert caught.value.request_id
    assert client.adaptive_avg_pool2d_backward(GRAD, SHAPE).shape == SHAPE


def test_a_failure_that_no_server_sends_is_refused(testing: TestServer, client: aclgrad.Client) -> None:
    wrong: list[Any] = ["broken", ValueError("broken"), aclgrad.ServerFaultError, aclgrad.ConnectionLostError("broken")]
    for each in wrong:
        with pytest.raises(ValueError, match="is no error that a server sends"):
            testing.fail(each)
    assert client.adaptive_avg_pool2d_backward(GRAD, SHAPE).shape == SHAPE


def test_a_slow_server_lets_a_call_pass_its_time_limit(testing: TestServer, client: aclgrad.Client) -> None:
    testing.delay_s = 0.5
    with pytest.raises(aclgrad.DeadlinePassedError):
        client.adaptive_avg_pool2d_backward(GRAD, SHAPE, timeout_s=0.1)


def test_a_server_that_asks_for_values_gets_them() -> None:
    with aclgrad.testing.serve(shape_only=False) as testing, aclgrad.Client(testing.target) as client:
        assert client.adaptive_avg_pool2d_backward(GRAD, np.zeros(SHAPE, np.float32)).shape == SHAPE
        with pytest.raises(aclgrad.InputValuesRequiredError):
            client.adaptive_avg_pool2d_backward(GRAD, SHAPE)


def test_it_lists_the_operators_of_its_product() -> None:
    with aclgrad.testing.serve(product="310P") as testing, aclgrad.Client(testing.target) as client:
        listed = {each.name for each in client.list_operators()}
        assert client.server_status().product == "310P"
    assert listed == {each.spec.name for each in typed_cases(Product.ATLAS_INFERENCE)}


def test_an_unknown_product_is_refused() -> None:
    with pytest.raises(ValueError, match="911"), aclgrad.testing.serve(product="911"):
        pass


def test_nothing_serves_after_the_block() -> None:
    with aclgrad.testing.serve() as testing:
        pass
    with aclgrad.Client(testing.target, connect_timeout_s=0) as client, pytest.raises(aclgrad.ServerUnreachableError):
        client.list_operators()


def test_it_ends_if_grpc_waits_for_a_watch_that_arrived_while_it_cancelled_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graces: list[float | None] = []
    serve = grpc.server

    def make(*args: Any, **options: Any) -> grpc.Server:
        core = serve(*args, **options)
        stop = core.stop

        def stop_at_the_second_time(grace: float | None) -> threading.Event:
            graces.append(grace)
            return threading.Event() if len(graces) == 1 else stop(grace)

        core.stop = stop_at_the_second_time
        return core

    monkeypatch.setattr(grpc, "server", make)
    with aclgrad.testing.serve():
        pass
    assert graces == [0, 0]
