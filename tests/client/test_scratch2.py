import asyncio, time, threading
import pytest, aclgrad
from aclgrad import _lines
from tools.calling import maybe_await
from .several_servers import Host, Worker, call, on_workers, running, settled, SERVICE
TOKEN = aclgrad.Credentials(token="secret", tls=False)

@pytest.mark.parametrize("who", ["nobody_health", "all_gone"])
async def test_h5(connect, who):
    """host ends, strangers take worker ports within 10 s"""
    with Host().serving() as host:
        client = connect(host.door.address, credentials=TOKEN)
        await on_workers(client)
        await call(client, 4)
        ports = host.ports
        for w in host.workers: w.stop()
        strangers = [Worker(None), Worker(None)]
        with running(*strangers, ports=ports[1:]):
            await asyncio.sleep(3)
            try: await call(client, 4)
            except aclgrad.AclgradError as e: print(e)
            print([[c.get("authorization") for c in s.calls] for s in strangers], len(host.door.calls))
            assert [s.calls for s in strangers] == [[], []]
