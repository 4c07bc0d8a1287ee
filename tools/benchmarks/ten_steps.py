"""The backward pass of a net of ten layers: bytes and messages of single calls, and of one program."""

from typing import Any, Final

import grpc
import numpy as np

import aclgrad
from tools.benchmarks import loads
from tools.benchmarks.report import Report

CHANNELS: Final = 11
IMAGES: Final = 4, CHANNELS, 33, 33
PADDED: Final = 4, CHANNELS, 35, 35
POOLED: Final = 4, CHANNELS, 17, 17
SMALL: Final = 4, CHANNELS, 8, 8
ROWS: Final = 4, CHANNELS, 1, 1
OUTPUT: Final = 4, CHANNELS, 2, 2
MOST_MB: Final = 0.81
"""Where the calls move 1.81 MB."""

Array = np.ndarray[Any, Any]


class Counter(grpc.UnaryUnaryClientInterceptor):
    """Counts the messages of a client and the bytes either way."""

    def __init__(self) -> None:
        self.messages = self.sent_bytes = self.received_bytes = 0

    def intercept_unary_unary(self, continuation: Any, details: Any, request: bytes) -> Any:
        call = continuation(details, request)
        self.messages += 1
        self.sent_bytes += len(request)
        self.received_bytes += len(call.result())
        return call


class Net:
    """What the forward pass has kept: pad, GELU, pool, batch norm, SiLU, max pool, layer norm, tanh, softmax, pool."""

    def __init__(self) -> None:
        generator = np.random.default_rng(55)

        def drawn(*shape: int) -> Array:
            return generator.standard_normal(shape, np.float32)

        self.grad, self.softmax, self.tanh = drawn(*OUTPUT), drawn(*SMALL), np.tanh(drawn(*SMALL))
        self.normalized, self.mean, self.rstd = drawn(*SMALL), drawn(*ROWS), np.ones(ROWS, np.float32)
        self.layer_weight, self.batch_weight = drawn(*SMALL[2:]), drawn(CHANNELS)
        self.indices = _first_of_windows()
        self.silu, self.batch_input, self.gelu = drawn(*POOLED), drawn(*POOLED), drawn(*PADDED)
        self.batch_mean, self.batch_invstd = drawn(CHANNELS), np.ones(CHANNELS, np.float32)

    def backward(self, to: Any) -> list[Any]:
        """Returns the gradients of images and weights from a client, or their handles from a program."""
        grad = to.adaptive_avg_pool2d_backward(self.grad, SMALL)
        grad = to.softmax_backward(grad, self.softmax, dim=1)
        grad = to.tanh_backward(grad, self.tanh)
        layer = to.layer_norm_backward(
            grad, self.normalized, self.mean, self.rstd, SMALL[2:], self.layer_weight, SMALL[2:]
        )
        grad = to.max_pool2d_with_indices_backward(layer.grad_input, POOLED, self.indices, kernel_size=(2, 2))
        grad = to.silu_backward(grad, self.silu)
        batch = to.batch_norm_backward(
            grad,
            self.batch_input,
            training=True,
            weight=self.batch_weight,
            save_mean=self.batch_mean,
            save_invstd=self.batch_invstd,
        )
        grad = to.avg_pool2d_backward(batch.grad_input, PADDED, kernel_size=(2, 2))
        grad = to.gelu_backward_v2(grad, self.gelu)
        grad = to.reflection_pad2d_backward(grad, IMAGES, padding=(1, 1, 1, 1))
        return [grad, layer.grad_weight, layer.grad_bias, batch.grad_weight, batch.grad_bias]


def _first_of_windows() -> Array:
    """Returns the indices of a maximum in the first cell of each window."""
    rows, columns = np.indices(SMALL[2:], dtype=np.int32)
    return np.ascontiguousarray(np.broadcast_to(2 * (POOLED[3] * rows + columns), SMALL))


def tell_bytes(report: Report, address: str) -> None:
    """Adds the table; raises AssertionError if the program returns other bits."""
    report.table("A backward pass of ten layers", "by", "messages", "MB sent", "MB back", "MB")
    net, found = Net(), []
    for name in ("calls", "a program"):
        counter = Counter()
        with (
            loads.channel_to(address) as channel,
            aclgrad.Client(channel=grpc.intercept_channel(channel, counter)) as client,
        ):
            program = client.program()
            found.append(net.backward(client) if name == "calls" else program.run(*net.backward(program)))
        both_mb = (counter.sent_bytes + counter.received_bytes) / 1e6
        most = f" (most {MOST_MB})" if name != "calls" else ""
        ways = f"{counter.sent_bytes / 1e6:.2f}", f"{counter.received_bytes / 1e6:.2f}"
        report.row(name, str(counter.messages), *ways, f"{both_mb:.2f}{most}")
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
