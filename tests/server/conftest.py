"""After each test nothing is claimed of what it has made of a server."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aclgrad_server.calls.gate import Gate
from aclgrad_server.calls.open_calls import OpenCalls
from tests.server.fake_device import FakeDevice
from tests.server.fakes import FakeContext, wait_until


@pytest.fixture(autouse=True)
async def nothing_stays_claimed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Fails a test if slots, memory, staged tensors or calls are held when its replies have left.

    Tests with the mark `claims` make claims themselves.
    """
    made: dict[type, list[Any]] = {kind: [] for kind in (Gate, OpenCalls, FakeDevice, FakeContext)}
    for kind, some in made.items():
        monkeypatch.setattr(kind, "__init__", _noting(kind.__init__, some))
    yield
    if request.node.get_closest_marker("claims"):
        return
    for context in made[FakeContext]:
        context.end()

    def held() -> list[str]:
        gates = [f"{each.used} of {each.limit} units" for each in made[Gate] if each.used or each.held]
        waiting = [f"{each.waiting_count} claims wait" for each in made[Gate] if each.waiting_count]
        calls = [f"{each.active_count} calls are open" for each in made[OpenCalls] if each.active_count]
        return gates + waiting + calls + ["staged tensors" for each in made[FakeDevice] if each.staged]

    try:
        await wait_until(lambda: not held(), 2)
    except TimeoutError:
        pytest.fail(f"the test leaves {', '.join(held())}")


def _noting(init: Callable[..., None], made: list[Any]) -> Callable[..., None]:
    def noting(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        made.append(self)

    return noting
