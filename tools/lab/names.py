"""A name server for the pods of a headless Service: its answers follow them late, as a cluster's do."""

import socket
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

NAME: Final = "aclgrad-pods"
_MAX_BYTES: Final = 4096


class Answers:
    """The addresses that a query gets: those of `lag_s` ago, and the same for `cache_s` once somebody has asked."""

    def __init__(self, lag_s: float, cache_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lag_s, self._cache_s, self._clock = lag_s, cache_s, clock
        self._lock = threading.Lock()
        self._published: list[tuple[float, tuple[str, ...]]] = []
        self._cached: tuple[float, tuple[str, ...]] | None = None

    def publish(self, addresses: Iterable[str]) -> None:
        """Notes which pods are ready now."""
        with self._lock:
            self._published.append((self._clock(), tuple(addresses)))

    def ask_anew(self) -> None:
        """Has somebody ask at the moment in which the answer before is forgotten."""
        with self._lock:
            self._cached = None
        self.now()

    def now(self) -> tuple[tuple[str, ...], float]:
        """Returns the addresses, and for how long others may keep them."""
        with self._lock:
            now = self._clock()
            if self._cached is None or now >= self._cached[0]:
                known = [addresses for at, addresses in self._published if at + self._lag_s <= now]
                self._cached = now + self._cache_s, known[-1] if known else ()
            end, addresses = self._cached
            return addresses, max(0.0, end - now)


class NameServer:
    """Answers queries for `NAME` on a UDP port of loopback from `with` to the end of the block."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, name="name server")
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def target(self, port: int) -> str:
        """Returns the target of gRPC that asks this server."""
        return f"dns://{self.address}/{NAME}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A datagram without bytes is no query, and ends the thread.
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, peer = self._socket.recvfrom(_MAX_BYTES)
            if not query:
                return
            try:
                self._socket.sendto(self._reply(dns.message.from_wire(query)).to_wire(), peer)
            except (dns.exception.DNSException, OSError):
                continue

    def _reply(self, query: dns.message.Message) -> dns.message.Message:
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.AA
        (question,) = query.question
        addresses, ttl_s = self._answers.now()
        if question.name.labels[0] != NAME.encode() or not addresses:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        elif question.rdtype == dns.rdatatype.A:
            reply.answer.append(dns.rrset.from_text_list(question.name, int(ttl_s), "IN", "A", list(addresses)))
        return reply
