"""What safety costs: calls with TLS, a token and the access log beside plain ones, handshakes, and a new certificate.

`python -m tools.benchmarks.security [ROUNDS] [SECONDS]`. The servers are measured in turns, and the ratios are those to
the plain server of the same round: of calls/s, and of the server's time on the CPU for each call, which other load on
the machine changes less.
"""

import re
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil

from aclgrad.wire.service import SERVICE
from tools.authority import Authority, write_identities
from tools.benchmarks import loads
from tools.benchmarks.sizes import SIZES
from tools.serving import Server

TOKEN: Final = "a-token-of-the-benchmark"
AT_ONCE: Final = 16
HANDSHAKE_THREADS: Final = 4
RELOADS: Final = 5
_CALLS: Final = re.compile(r"(\d+) succeeded")


def variants(folder: Path) -> dict[str, tuple[str, ...]]:
    """Returns the flags of each server, by what it is called in the table."""
    tls = Authority(folder).server_flags()
    file = write_identities(folder / "identities.toml", {"caller": {"token": TOKEN, "max_calls": 10_000}})
    token, log = ("--identities", file), ("--access-log",)
    return {
        "plain": (),
        "TLS": tls,
        "token": token,
        "access log": log,
        "TLS, token and access log": (*tls, *token, *log),
    }


def calls(server: Server, seconds: float, has_tls: bool) -> tuple[float, float]:
    """Returns calls/s of small calls, and the server's microseconds on the CPU for each."""
    request = loads.unary_request(SIZES["16 KB"])
    with tempfile.NamedTemporaryFile() as frame:
        frame.write(struct.pack(">BI", 0, len(request)) + request)
        frame.flush()
        command = ["h2load", "--data", frame.name, "--duration", f"{round(seconds * 1e3)}ms", "--warm-up-time", "300ms"]
        command += ["--clients", "4", "--max-concurrent-streams", str(AT_ONCE // 4)]
        command += ["--window-bits", "24", "--connection-window-bits", "24"]
        headers = {"content-type": "application/grpc", "te": "trailers", "authorization": f"Bearer {TOKEN}"}
        command += [word for name, value in headers.items() for word in ("--header", f"{name}: {value}")]
        url = f"{'https' if has_tls else 'http'}://{server.address}{SERVICE}ExecuteOperator"
        process = psutil.Process(server.process_id)
        before = process.cpu_times()
        told = subprocess.run([*command, url], capture_output=True, text=True, timeout=60, check=True).stdout
        after = process.cpu_times()
    found = _CALLS.search(told)
    assert found is not None, told
    assert "0 failed, 0 errored" in told, told
    count = int(found[1])
    # The warm-up is not counted, but takes time on the CPU: that is the same share for every server.
    return count / seconds, 1e6 * (after.user + after.system - before.user - before.system) / count


def handshakes(server: Server, authority: ssl.SSLContext, seconds: float) -> tuple[float, float]:
    """Returns handshakes/s from a few threads, and the server's microseconds on the CPU for each."""
    host, _, port = server.address.rpartition(":")
    process = psutil.Process(server.process_id)
    counts = [0] * HANDSHAKE_THREADS
    end = time.monotonic() + seconds

    def connect(number: int) -> None:
        while time.monotonic() < end:
            with socket.create_connection((host, int(port))) as plain, authority.wrap_socket(plain):
                counts[number] += 1

    before = process.cpu_times()
    threads = [threading.Thread(target=connect, args=(number,)) for number in range(HANDSHAKE_THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    after = process.cpu_times()
    count = sum(counts)
    return count / seconds, 1e6 * (after.user + after.system - before.user - before.system) / count


def reloads(server: Server, authority: Authority) -> Iterator[float]:
    """Yields the seconds from a changed file to the first connection with the new certificate."""
    host, _, port = server.address.rpartition(":")
    for _ in range(RELOADS):
        before = ssl.get_server_certificate((host, int(port)))
        authority.pair("server")
        begin = time.monotonic()
        while ssl.get_server_certificate((host, int(port))) == before:
            time.sleep(0.005)
        yield time.monotonic() - begin


def main(rounds: int = 5, seconds: float = 2.0) -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        flags = variants(folder)
        servers = {each: stack.enter_context(Server(*of, "--log-level", "info")) for each, of in flags.items()}
        found: dict[str, list[tuple[float, float]]] = {each: [] for each in servers}
        for _ in range(rounds):
            for each, server in servers.items():
                found[each].append(calls(server, seconds, "--tls-key" in flags[each]))
        print(f"{'server':28}{'calls/s':>9}{'ratio':>7}{'CPU us':>8}{'ratio':>7}")
        for each, measured in found.items():
            rates, cpu = zip(*measured, strict=True)
            plain_rates, plain_cpu = zip(*found["plain"], strict=True)
            rate_ratio = statistics.median(mine / plain for mine, plain in zip(rates, plain_rates, strict=True))
            cpu_ratio = statistics.median(mine / plain for mine, plain in zip(cpu, plain_cpu, strict=True))
            figures = f"{statistics.median(rates):9.0f}{rate_ratio:7.2f}{statistics.median(cpu):8.1f}{cpu_ratio:7.2f}"
            print(f"{each:28}{figures}")
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        rate, cpu_us = handshakes(servers["TLS"], context, 2 * seconds)
        print(f"{rate:.0f} handshakes/s, {cpu_us:.0f} us of the server's CPU for each")
        authority = Authority(folder)
        authority.pair("server")
        times = list(reloads(servers["TLS"], authority))
        print(f"new certificate after {statistics.median(times):.2f} s, at most {max(times):.2f} s")


if __name__ == "__main__":
    main(*(int(each) if each.isdecimal() else float(each) for each in sys.argv[1:]))
