"""Messages of more bytes than the server has memory: it keeps within its limit, and every call is answered."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import psutil
import pytest

import aclgrad
from tools.calling import wait_until
from tools.raw_calls import SERVICE, error_of
from tools.serving import Server

pytestmark = [pytest.mark.alone, pytest.mark.once, pytest.mark.slow]

MIB = 2**20
LIMIT_BYTES = 400 * MIB
CALLS = 100
MESSAGE = b"\x0f" + bytes(12 * MIB)
"""Not a message of ours: it has to be received to find that out."""


def test_messages_beyond_the_memory_are_refused_or_wait() -> None:
    with (
        Server("--memory-limit-bytes", str(LIMIT_BYTES), changes="idle_trim_s=0.2") as server,
        ThreadPoolExecutor(CALLS) as threads,
        aclgrad.Client(server.address, timeout_s=60) as other,
    ):
        process = psutil.Process(server.process_id)

        def send(_: int) -> type[aclgrad.AclgradError]:
            options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
            with grpc.insecure_channel(server.address, options) as channel:
                try:
                    channel.unary_unary(SERVICE + "ExecuteOperator")(MESSAGE, timeout=60)
                except grpc.RpcError as error:
                    return type(error_of(error))
            raise AssertionError("the message was taken for one")

        ends = [threads.submit(send, number) for number in range(CALLS)]
        peak = 0
        while not all(end.done() for end in ends):
            peak = max(peak, process.memory_info().rss)
        assert {end.result() for end in ends} <= {aclgrad.MalformedRequestError, aclgrad.ServerBusyError}
        # Messages that come between two looks of the watch are more than the limit, and all of them three times that.
        assert peak < 2 * LIMIT_BYTES < CALLS * len(MESSAGE) / 1.4
        # Those of calls that were cut are given back as well.
        wait_until(lambda: process.memory_info().rss < LIMIT_BYTES / 2)
        gradient = other.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2))
        assert gradient.sum() == 1
