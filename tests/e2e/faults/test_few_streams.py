"""A server whose device has fewer streams left than --streams asks for, because other processes use them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aclgrad
from aclgrad.products import STREAM_LIMITS, Product
from tests.e2e.fault_plans import FaultyServer, call, errors_among, once, write_config
from tools.serving import run_to_end

pytestmark = once

CALLS, CALLERS, LEFT = 400, 32, 6
LIMIT = STREAM_LIMITS[Product.ATLAS_A2]


def elsewhere(left: int) -> dict[str, object]:
    """Returns the device's settings; the process has a default stream, too."""
    return {"product": Product.ATLAS_A2, "streams_elsewhere": LIMIT - 1 - left}


def test_every_call_is_answered(tmp_path: Path) -> None:
    flags = ("--streams", "16", "--max-waiting-calls", str(CALLERS))
    with (
        FaultyServer(tmp_path, flags=flags, **elsewhere(LEFT)) as server,
        aclgrad.Client(server.address, retries=0) as client,
        ThreadPoolExecutor(CALLERS) as threads,
    ):
        assert errors_among(list(threads.map(lambda _: call(client), range(CALLS)))) == []
        assert 1 <= client.server_status().devices[0].stream_count <= LEFT
        assert server.misuse == ""


def test_a_server_without_a_stream_names_the_limit_and_the_remedy(tmp_path: Path) -> None:
    flags = ("--listen", "127.0.0.1:0", "--admin", "off")
    done = run_to_end("--backend", "host", "--acl-config", write_config(tmp_path, **elsewhere(0)), *flags)
    assert done.returncode == 1
    assert f"device 0 has none of its {LIMIT} streams left for this process; run fewer processes on it" in done.stderr
    assert "memory" not in done.stderr
