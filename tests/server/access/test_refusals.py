"""Refusals of unknown callers: a flood of them would take the event loop from the callers who are known."""

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from aclgrad.errors import NotAuthenticatedError
from aclgrad_server.access import access
from aclgrad_server.access.access import Access
from aclgrad_server.access.identities import Identities
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.open_calls import Throttle
from aclgrad_server.files import Reloaded
from aclgrad_server.limits import LONGEST_REFUSAL_S, REFUSALS_PER_S
from aclgrad_server.services.handlers import Handlers
from tests.server.fakes import FakeContext, new_calls


class Strangers(Access):
    def admit(self, call: Call) -> None:
        raise NotAuthenticatedError("nobody knows the caller", remedy="show a token")


class Context(FakeContext):
    async def abort(self, code: grpc.StatusCode, text: str, trailers: Sequence[Any]) -> None:
        self.end()
        raise grpc.aio.AbortError


async def never(message: bytes, call: Call) -> bytes:
    raise AssertionError


async def test_an_address_that_is_refused_often_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(delay_s: float) -> None:
        waits.append(delay_s)

    monkeypatch.setattr(access, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(access, "Throttle", partial(Throttle, clock=lambda: 0.0))
    strangers = Strangers(Reloaded("identities", (), lambda: Identities({})))
    refuse = Handlers(new_calls(), Admission(1, 1), strangers).unary("Unary", never).stream_unary

    async def wait_of(address: str) -> float:
        with pytest.raises(grpc.aio.AbortError):
            await refuse(None, Context(peer=f"ipv4:{address}:5"))
        return waits.pop()

    found = [await wait_of("192.0.2.1") for _ in range(10 * REFUSALS_PER_S)]
    assert found[:2] == pytest.approx([0, 1 / REFUSALS_PER_S])
    assert found[REFUSALS_PER_S] == pytest.approx(1)
    assert found[-1] == pytest.approx(LONGEST_REFUSAL_S, abs=0.01)
    assert await wait_of("192.0.2.2") == 0
