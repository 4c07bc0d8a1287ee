"""Names and values that are made to do harm: the error stays typed, and the log keeps its lines."""

import numpy as np
import pytest

import aclgrad
from tools.calling import AnyClient, maybe_await, wait_until
from tools.serving import Server

pytestmark = pytest.mark.once

GRAD = np.ones((1, 2, 2), np.float32)
NAME = "adaptive_avg_pool2d_backward"
FORGED = "2026-01-01T00:00:00Z ERROR root: forged"

LARGE = {
    "operator": (("x" * 20_000, {"a": GRAD}), aclgrad.UnknownOperatorError),
    "input": ((NAME, {"y" * 20_000: GRAD}), aclgrad.InvalidFieldError),
    "many_inputs": ((NAME, {f"input{i}": GRAD for i in range(500)}), aclgrad.InvalidFieldError),
    "attribute": ((NAME, {"grad_output": GRAD, "self": GRAD}, {"z" * 20_000: 1}), aclgrad.InvalidFieldError),
    "list": (
        ("roi_align_v2_backward", {"grad_output": GRAD, "boxes": GRAD}, {"input_shape": (1,) * 9_000}),
        aclgrad.InvalidFieldError,
    ),
}


@pytest.mark.parametrize(("call", "kind"), LARGE.values(), ids=LARGE)
async def test_an_error_about_large_text_arrives(client: AnyClient, call: tuple, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        await maybe_await(client.execute(*call))
    assert caught.value.field
    assert caught.value.remedy
    assert len(str(caught.value)) < 1000


def test_a_name_cannot_begin_a_line_of_the_log() -> None:
    with Server() as server, aclgrad.Client(server.address) as client:
        with pytest.raises(aclgrad.InvalidFieldError):
            client.execute(NAME, {"grad_output": GRAD, "self": GRAD, f"x\n{FORGED}": GRAD})
        wait_until(lambda: FORGED in server.log)
        assert not any(line.startswith(FORGED) for line in server.log.splitlines())


OVERFLOWING = {
    "output_with_a_zero": (
        "roi_align_v2_backward",
        {"grad_output": np.ones((0, 1, 2, 2), np.float32), "boxes": np.ones((0, 5), np.float32)},
        {"input_shape": (2**62, 1, 4, 0), "pooled_height": 2, "pooled_width": 2},
    ),
    "padding_that_cancels": (
        "replication_pad2d_backward",
        {"grad_output": np.ones((1, 4, 4), np.float32), "self": (1, 4, 4)},
        {"padding": (2**63 - 1, -(2**63 - 1), 0, 0)},
    ),
}


@pytest.mark.parametrize("call", OVERFLOWING.values(), ids=OVERFLOWING)
async def test_sizes_that_leave_64_bits_are_refused(client: AnyClient, call: tuple) -> None:
    with pytest.raises((aclgrad.InvalidFieldError, aclgrad.LimitExceededError)):
        await maybe_await(client.execute(*call))


def test_a_message_of_nothing_but_fields_is_refused_early(server: Server) -> None:
    with server.channel() as channel, pytest.raises(Exception, match="more than 20000 fields"):
        channel.unary_unary("/aclgrad.v1.OperatorService/ExecuteOperator")(b"\x78\x00" * 1_000_000, timeout=30)


async def test_a_list_in_place_of_a_shape_is_explained(client: AnyClient) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match="a shape as a tuple"):
        await maybe_await(client.execute(NAME, {"grad_output": GRAD, "self": [1, 4, 4]}))


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e12])
async def test_an_endless_time_limit_is_none(client: AnyClient, timeout_s: float) -> None:
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 4, 4), timeout_s=timeout_s))
    assert gradient.sum() == 4
