"""The ports of a host: held before any worker listens, shared by its workers alone, and free when it has ended."""

import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import grpc
import pytest

from aclgrad_server.exits import StartError
from aclgrad_server.supervisor import addresses
from aclgrad_server.supervisor.addresses import Addresses
from tools.serving import free_range

LOCAL = "127.0.0.1"


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def port_of_socket(each: socket.socket) -> int:
    return int(each.getsockname()[1])


@pytest.fixture
def held() -> Iterator[Callable[..., Addresses]]:
    """Holds addresses until the end of the test."""
    with ExitStack() as stack:
        yield lambda *listen, workers=2: stack.enter_context(closing(Addresses(listen, workers)))


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Listens with gRPC, which shares the port with others or does not, and returns the port."""
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:

        def serve(address: str, shares: int) -> int:
            server = grpc.server(pool, options=[("grpc.so_reuseport", shares)])
            stack.callback(lambda: server.stop(None).wait())
            port = server.add_insecure_port(address)
            server.start()
            return port

        yield serve


def assert_answers(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(60)


def test_ports_after_an_explicit_one(held: Callable[..., Addresses]) -> None:
    port = free_range(3)
    found = held(f"{LOCAL}:{port}", workers=3)
    assert found.shared == (f"{LOCAL}:{port}",)
    assert found.own == tuple((f"{LOCAL}:{port + 1 + worker}",) for worker in range(3))
    assert found.of(1) == (f"{LOCAL}:{port}", f"{LOCAL}:{port + 2}")
    assert not found.has_unix


def test_port_zero_is_chosen_once_for_all_and_once_for_each(held: Callable[..., Addresses]) -> None:
    found = held(f"{LOCAL}:0", f"{LOCAL}:0")
    ports = {port_of(each) for each in (*found.shared, *found.own[0], *found.own[1])}
    assert len(ports) == 6
    assert min(ports) > 0
    assert found.of(0) == found.shared + found.own[0]


def test_unix_sockets_are_each_worker_s_own(held: Callable[..., Addresses]) -> None:
    found = held("unix:/run/a", f"{LOCAL}:0", workers=3)
    tcp = found.shared[1]
    assert found.shared == ("unix:/run/a", tcp)
    assert [own[0] for own in found.own] == ["unix:/run/a", "unix:/run/a.1", "unix:/run/a.2"]
    assert found.of(0) == (tcp, "unix:/run/a", found.own[0][1])
    assert found.of(2) == (tcp, "unix:/run/a.2", found.own[2][1])
    assert found.has_unix


def test_workers_share_the_port_and_others_are_refused(
    held: Callable[..., Addresses], serve: Callable[..., int]
) -> None:
    found = held(f"{LOCAL}:0")
    (shared,), ((own,), _) = found.shared, found.own
    for address in (shared, own):
        with pytest.raises(RuntimeError, match="Failed to bind"):
            serve(address, shares=0)
        # The workers of this host.
        for _ in range(2):
            assert serve(address, shares=1) == port_of(address)
        assert_answers(address)
        with pytest.raises(RuntimeError, match="Failed to bind"):
            serve(address, shares=0)
        with pytest.raises(OSError, match="in use"):
            socket.create_server((LOCAL, port_of(address)))


def test_a_port_that_somebody_has_is_refused(held: Callable[..., Addresses], serve: Callable[..., int]) -> None:
    """Another host, or a server that would share it."""
    for address in (*held(f"{LOCAL}:0").shared, f"{LOCAL}:{serve(f'{LOCAL}:0', shares=1)}"):
        with pytest.raises(StartError, match=f"cannot listen on {address}: the port is taken; give another --listen"):
            Addresses([address], 2)


def test_sibling_port_that_is_taken_is_named_and_nothing_stays_held() -> None:
    port = free_range(3)
    with socket.create_server((LOCAL, port + 2)):
        told = f"cannot listen on {LOCAL}:{port + 2}, worker 1's own address: the port is taken; give another --listen"
        with pytest.raises(StartError, match=told):
            Addresses([f"{LOCAL}:{port}"], 3)
    Addresses([f"{LOCAL}:{port}"], 3).close()


def test_ports_of_one_host_must_not_overlap() -> None:
    port = free_range(4)
    with pytest.raises(StartError, match=f"{LOCAL}:{port + 1}: the port is taken"):
        Addresses([f"{LOCAL}:{port}", f"{LOCAL}:{port + 1}"], 2)
    Addresses([f"{LOCAL}:{port}"], 3).close()


TWICE = r"cannot listen on unix:/run/a\.1 twice, for two workers; give another"
BEYOND = "its workers would have the 2 ports after it, and 65535 is the last"
UNUSABLE: dict[str, tuple[tuple[str, ...], str]] = {
    "unix_sockets_overlap": (("unix:/run/a", "unix:/run/a.1"), TWICE),
    "unix_sockets_overlap_the_other_way": (("unix:/run/a.1", "unix:/run/a"), TWICE),
    "one_port_too_many": ((f"{LOCAL}:65534",), f"cannot listen on {LOCAL}:65534: {BEYOND}"),
    "two_ports_too_many": ((f"{LOCAL}:65535",), f"cannot listen on {LOCAL}:65535: {BEYOND}"),
    "unknown_name": (("nowhere.invalid:0",), r"cannot listen on nowhere.invalid.*: .+; give another --listen"),
    "another_machine": (("192.0.2.1:0",), r"cannot listen on 192.0.2.1.*: .+; give another --listen"),
}


@pytest.mark.parametrize(("listen", "told"), UNUSABLE.values(), ids=UNUSABLE)
def test_addresses_that_two_workers_cannot_have_are_named(listen: tuple[str, ...], told: str) -> None:
    with pytest.raises(StartError, match=told):
        Addresses(listen, 2)


def test_name_with_two_families_has_one_port_in_both(
    held: Callable[..., Addresses], monkeypatch: pytest.MonkeyPatch
) -> None:
    families = [(socket.AF_INET6, "::1"), (socket.AF_INET, LOCAL)]
    monkeypatch.setattr(addresses, "_ips_of", lambda host: families)
    found = held("localhost:0")
    assert [(each.family, each.getsockname()[0]) for each in found.holders] == families * 3
    ports = [port_of_socket(each) for each in found.holders]
    assert ports[::2] == ports[1::2]
    assert ports[::2] == [port_of(each) for each in (*found.shared, *found.own[0], *found.own[1])]
    with socket.create_server((LOCAL, 0)) as taken:
        address = f"localhost:{port_of_socket(taken)}"
        with pytest.raises(StartError, match=f"{address}: the port is taken"):
            Addresses([address], 2)


def test_port_that_the_kernel_chose_for_one_family_may_be_taken_in_the_other(
    held: Callable[..., Addresses], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the connection of some client."""
    asked: list[int] = []
    bind = addresses._bind  # noqa: SLF001

    def note(ips: Sequence[tuple[socket.AddressFamily, str]], port: int) -> tuple[list[socket.socket], list[OSError]]:
        asked.append(port)
        if len(asked) > 1:
            return bind(ips, port)
        held, _ = bind(ips[:1], port)
        return held, [OSError(errno.EADDRINUSE, "")]

    monkeypatch.setattr(addresses, "_bind", note)
    assert len(held(f"{LOCAL}:0", workers=1).holders) == 2
    assert asked == [0, 0, 0]


def test_localhost_is_what_grpc_takes_it_for(held: Callable[..., Addresses], serve: Callable[..., int]) -> None:
    (address,) = held("localhost:0").shared
    with pytest.raises(RuntimeError, match="Failed to bind"):
        serve(address, shares=0)
    assert serve(address, shares=1) == port_of(address)
    assert_answers(address)


def test_name_with_ipv6_addresses_on_a_kernel_without(
    held: Callable[..., Addresses], monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return make(family, kind)

    make = socket.socket
    monkeypatch.setattr(addresses, "_ips_of", lambda host: [(socket.AF_INET6, "::1"), (socket.AF_INET, LOCAL)])
    monkeypatch.setattr(addresses.socket, "socket", without)
    assert [each.family for each in held("localhost:0").holders] == [socket.AF_INET] * 3
    monkeypatch.setattr(addresses, "_ips_of", lambda host: [(socket.AF_INET6, "::1")])
    with pytest.raises(StartError, match=r"\[::1\]:0: Address family not supported"):
        Addresses(["[::1]:0"], 2)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_wildcards_take_the_port_of_every_address(
    held: Callable[..., Addresses], serve: Callable[..., int], host: str
) -> None:
    (address,) = held(f"{host}:0").shared
    port = port_of(address)
    with pytest.raises(OSError, match="in use"):
        socket.create_server((LOCAL, port))
    with pytest.raises(StartError, match="the port is taken"):
        Addresses([f"{LOCAL}:{port}"], 1)
    assert serve(address, shares=1) == port
    assert_answers(f"{LOCAL}:{port}")


def test_closed_ports_are_free_for_everybody_also_after_connections(serve: Callable[..., int]) -> None:
    """Of workers that have ended, and whose connections the kernel still remembers."""
    found = Addresses([f"{LOCAL}:{free_range(2)}"], 2)
    (address,) = found.shared
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOCAL, port_of(address)))
        listener.listen()
        with socket.create_connection((LOCAL, port_of(address))):
            accepted, _ = listener.accept()
            accepted.close()  # first, so that this end waits
    found.close()
    Addresses([address], 2).close()
    assert serve(address, shares=0) == port_of(address)
