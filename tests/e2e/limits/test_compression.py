"""Compressed messages are refused, and none of them grows."""

import re
from pathlib import Path

import grpc
import pytest

from tests.e2e.fault_plans import once
from tools.raw_calls import SERVICE, SMALL, execute, open_channel
from tools.serving import Server

pytestmark = once

MIB = 2**20


@pytest.mark.parametrize(
    ("method", "algorithm"),
    [
        (SERVICE + "ExecuteOperator", grpc.Compression.Gzip),
        (SERVICE + "ExecuteProgramChunked", grpc.Compression.Deflate),
    ],
)
def test_a_compression_bomb_is_refused_and_takes_no_memory(
    server: Server, method: str, algorithm: grpc.Compression
) -> None:
    """Each message has 15 MiB in 15 KB: less than a message may have."""
    options = [("grpc.default_compression_algorithm", algorithm), ("grpc.max_send_message_length", -1)]
    with open_channel(server) as plain, grpc.insecure_channel(server.address, options) as channel:
        execute(plain, SMALL["tanh_backward"])
        before = peak_bytes(server)
        for _ in range(16):
            with pytest.raises(grpc.RpcError, match=r"UNIMPLEMENTED[^']*'(gzip|deflate)' is disabled"):
                list(channel.stream_stream(method)(iter([bytes(15 * MIB)]), timeout=60))
        assert peak_bytes(server) - before < 8 * MIB
        execute(plain, SMALL["tanh_backward"])


def peak_bytes(server: Server) -> int:
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.process_id}/status").read_text())
    return 1024 * int(kib)
