"""Calls per second of ExecuteOperator beside a bare gRPC echo of the same sizes, in the same run: `make bench`.

Client and servers share the machine's cores. Requests are serialized once, and replies are not parsed: what is measured
is the server and the transport.
"""

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import numpy as np

from aclgrad._calls import SERVICE, SentValues, execute_call
from aclgrad._channel import channel_options

ECHO = [sys.executable, str(Path(__file__).with_name("echo_server.py"))]
OURS = [sys.executable, "-m", "aclgrad_server.cli", "--backend", "host", "--listen", "127.0.0.1:0"]
OURS += ["--log-level", "warning"]
# name, pooled shape, window shape, calls in one measurement
SIZES = [
    ("small", (1, 16, 14, 14), (1, 16, 7, 7), 2000),
    ("medium", (8, 64, 56, 56), (8, 64, 56, 56), 60),
    ("large", (32, 256, 56, 56), (32, 256, 56, 56), 4),
]
CONCURRENCIES = (1, 4)
REPEATS = 3


@contextmanager
def running(command: list[str]) -> Iterator[str]:
    """Yields the address of a server that lives as long as the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.match(r"ready: (\S+)", process.stdout.readline())
            assert ready is not None
            yield ready[1]
        finally:
            process.terminate()


def calls_per_second(address: str, method: str, request: bytes, count: int, concurrency: int) -> float:
    """Returns the rate of `count` calls made by `concurrency` threads, each with a channel of its own."""
    # A channel of its own: channels with equal options share one connection.
    options = channel_options(2**31 - 1)
    channels = [
        grpc.insecure_channel(address, [*options, ("grpc.use_local_subchannel_pool", 1)]) for _ in range(concurrency)
    ]
    with ExitStack() as stack, ThreadPoolExecutor(concurrency) as pool:
        methods = [stack.enter_context(channel).unary_unary(method) for channel in channels]
        for each in methods:
            each(request, wait_for_ready=True)
        start = time.perf_counter()
        list(pool.map(lambda each: [each(request) for _ in range(count // concurrency)], methods))
        return count // concurrency * concurrency / (time.perf_counter() - start)


def main() -> None:
    print(f"load average {os.getloadavg()[0]:.1f}; median of {REPEATS}; calls/s, in brackets MB/s both ways")
    print(f"{'size':<8} {'bytes in + out':<22} {'at once':>7} {'echo':>18} {'aclgrad':>18} {'ratio':>6}")
    with running(ECHO) as echo, running(OURS) as ours:
        for name, shape, window, count in SIZES:
            grad_output = np.random.default_rng(0).standard_normal(window, np.float32)
            inputs = {"grad_output": grad_output, "self": shape}
            request = execute_call("adaptive_avg_pool2d_backward", inputs, {}, SentValues(shape_only=True)).request
            reply_bytes = 4 * int(np.prod(shape))
            size = len(request) + reply_bytes
            echoed = bytes(len(request) - 8) + reply_bytes.to_bytes(8, "little")
            for concurrency in CONCURRENCIES:
                pairs = [
                    (
                        calls_per_second(echo, "/echo/Echo", echoed, count, concurrency),
                        calls_per_second(ours, SERVICE + "ExecuteOperator", request, count, concurrency),
                    )
                    for _ in range(REPEATS)
                ]
                rates = [statistics.median(column) for column in zip(*pairs, strict=True)]
                told = [f"{rate:.1f} ({rate * size / 1e6:.0f})" for rate in rates]
                bytes_told = f"{len(request)} + {reply_bytes}"
                ratio = statistics.median(b / a for a, b in pairs)
                print(f"{name:<8} {bytes_told:<22} {concurrency:>7} {told[0]:>18} {told[1]:>18} {ratio:>6.2f}")


if __name__ == "__main__":
    main()
