"""The server of `aclgrad.testing`: it answers as `aclgrad-server` does, and fails on request."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
import aclgrad.testing
from aclgrad.operators.cases import TypedCase, first_cases, typed_cases
from aclgrad.products import Product
from aclgrad.testing import TestServer
from tools.serving import Server

GRAD = np.ones((3, 7, 7), np.float32)
SHAPE = (3, 14, 14)
SMALL_MESSAGE = 2**16
BAD_CALLS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "unknown_operator": ("avg_pool9d_backward", {"grad_output": GRAD}, {}),
    "missing_input": ("adaptive_avg_pool2d_backward", {"grad_output": GRAD}, {}),
    "wrong_shape": ("adaptive_avg_pool2d_backward", {"grad_output": GRAD, "self": (3, 14)}, {}),
    "wrong_dtype": ("adaptive_avg_pool2d_backward", {"grad_output": GRAD.astype("int32"), "self": SHAPE}, {}),
    "too_large": (
        "adaptive_avg_pool2d_backward",
        {"grad_output": np.ones((1, 1, 1), np.float32), "self": (1, 2**20, 2**20)},
        {},
    ),
    "unknown_attribute": ("adaptive_avg_pool2d_backward", {"grad_output": GRAD, "self": SHAPE}, {"size": 3}),
    "wrong_index": (
        "max_unpool3d_backward",
        {
            "grad_output": np.ones((1, 2, 4, 4), np.float32),
            "self": (1, 2, 2, 2),
            "indices": np.full((1, 2, 2, 2), 32, np.int64),
        },
        {"output_size": (2, 4, 4), "stride": (1, 2, 2), "padding": (0, 0, 0)},
    ),
    "wrong_argmax": (
        "max_pool2d_with_mask_backward",
        {"grad_output": np.ones((1, 2, 2), np.float32), "self": (1, 4, 4), "indices": np.full((1, 2, 2), 15, np.int64)},
        {"kernel_size": (2, 2), "stride": (2, 2)},
    ),
    "index_outside_its_window": (
        "max_pool2d_with_indices_backward",
        {"grad_output": np.ones((1, 2, 2), np.float32), "self": (1, 4, 4), "indices": np.full((1, 2, 2), 15, np.int64)},
        {"kernel_size": (2, 2), "stride": (2, 2)},
    ),
    "wrong_box": (
        "roi_align_v2_backward",
        {"grad_output": np.ones((1, 1, 1, 1), np.float32), "boxes": np.full((1, 5), np.inf, np.float32)},
        {"input_shape": (1, 1, 4, 4), "pooled_height": 1, "pooled_width": 1},
    ),
}


@pytest.fixture
def testing() -> Iterator[TestServer]:
    with aclgrad.testing.serve() as server:
        yield server


@pytest.fixture
def client(testing: TestServer) -> Iterator[aclgrad.Client]:
    with aclgrad.Client(testing.target) as client:
        yield client


@pytest.fixture(scope="module")
def real() -> Iterator[aclgrad.Client]:
    with Server() as server, aclgrad.Client(server.address) as client:
        yield client


@pytest.mark.parametrize("typed", list(first_cases(Product.ATLAS_A2)), ids=str)
def test_it_computes_what_the_real_server_computes(
    client: aclgrad.Client, real: aclgrad.Client, typed: TypedCase
) -> None:
    call = typed.spec.name, typed.arrays(), typed.attributes
    found, expected = (each.execute(*call) for each in (client, real))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found.astype(np.complex128), expected.astype(np.complex128), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", BAD_CALLS)
def test_it_refuses_what_the_real_server_refuses(client: aclgrad.Client, real: aclgrad.Client, name: str) -> None:
    errors = []
    for each in (client, real):
        with pytest.raises(aclgrad.RequestError) as caught:
            each.execute(*BAD_CALLS[name])
        errors.append(caught.value)
    assert (type(errors[0]), errors[0].field) == (type(errors[1]), errors[1].field)
    assert errors[0].remedy


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


def test_a_failure_is_retried_as_often_as_it_was_asked_for(testing: TestServer, client: aclgrad.Client) -> None:
    testing.fail(aclgrad.ServerBusyError("full", retry_after_s=0.01), times=2)
    assert client.adaptive_avg_pool2d_backward(GRAD, SHAPE).shape == SHAPE
    assert len(testing.calls) == 1


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
    testing.delay_s = 30
    threading.Timer(0.5, lambda: setattr(testing, "delay_s", 0)).start()
    start = time.monotonic()
    with pytest.raises(aclgrad.DeadlinePassedError):
        client.adaptive_avg_pool2d_backward(GRAD, SHAPE, timeout_s=0.2)
    assert time.monotonic() - start < 20


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
