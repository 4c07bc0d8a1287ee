"""What ListOperators says of the host."""

import pytest

from aclgrad.products import Product
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad_server.devices.opening import Library
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.place import Place
from aclgrad_server.server_view import ServerView
from aclgrad_server.services.operators import OperatorService
from aclgrad_server.settings import Settings
from tests.server.fake_device import FakeDevice
from tests.server.fakes import new_call, runner_of

ID = "0123456789abcdef"
SHARED = ("0.0.0.0:50051", "unix:/run/a.sock", "[::]:7000")
OWN = (
    ("0.0.0.0:50052", "unix:/run/a.sock", "[::]:7001"),
    ("0.0.0.0:50053", "unix:/run/a.sock.1", "[::]:7002"),
)


async def host_of(place: Place | None) -> tuple[pb.Host, ServerView]:
    state = ServerView(Settings(), place)
    library = Library("libacl_host.so", "1", None, True, {}, True, True)
    service = OperatorService(state, TurnedOff(Product.ATLAS_A2), library, runner_of(FakeDevice()))
    return pb.ListOperatorsResponse.FromString(await service.list_operators(b"", new_call())).host, state


async def test_server_alone_has_an_id_and_no_listeners() -> None:
    (first, state), (second, _) = await host_of(None), await host_of(None)
    assert first.id == state.host_id
    assert len(first.id) == len(second.id) == 32
    assert first.id != second.id
    assert not first.listeners


UNIX = (("unix:/run/a.sock",), ("unix:/run/a.sock.1",))


@pytest.mark.parametrize(
    ("place", "listeners"),
    [
        (Place(1, 2, 1, OWN, host_id=ID, shared=SHARED), [(50051, [50052, 50053]), (7000, [7001, 7002])]),
        (Place(0, 2, 1, UNIX, host_id=ID, shared=("unix:/run/a.sock",)), []),
    ],
    ids=["ports", "unix_sockets_alone"],
)
async def test_each_worker_tells_the_ports_of_all_by_the_one_that_they_share(
    place: Place, listeners: list[tuple[int, list[int]]]
) -> None:
    """Ports alone: clients know the host by a name of their own. A unix socket is nobody's port."""
    host, _ = await host_of(place)
    assert host.id == ID
    assert [(each.port, list(each.worker_ports)) for each in host.listeners] == listeners
