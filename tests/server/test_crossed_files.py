"""How many files of the server one has to open to follow a small call."""

import gc
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import aclgrad_server
from aclgrad.products import Product
from aclgrad.wire.messages import encode_request
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.calls.unary import execute_unary
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.opening import VISIBLE, open_device
from aclgrad_server.devices.planning import Planner
from aclgrad_server.server_view import ServerView
from aclgrad_server.services.handlers import Handlers
from aclgrad_server.services.load_report import LoadReport
from aclgrad_server.settings import Settings
from tests.server.fakes import NO_LIMIT, FakeContext, pooling_call

ROOT = Path(aclgrad_server.__file__).parent
REQUEST = encode_request(pooling_call(1, 2, 2))


class Context(FakeContext):
    def set_trailing_metadata(self, trailers: object) -> None: ...


@pytest.fixture
async def handler(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """The handler of ExecuteOperator on a device of the host library."""
    # What opening shows to the library is taken back at the end; the library takes its configuration once.
    monkeypatch.setenv(VISIBLE, "0")
    gc.collect()
    settings, completions = Settings(backend="host", pool_bytes=2**28), Completions()
    _, device = await open_device(settings, completions, lambda device, error: None)
    runner = Runner(device, Admission(4, 64, 2**28), Planner(Product.ATLAS_A2, NO_LIMIT), NO_LIMIT)
    state = ServerView(settings)
    handlers = Handlers(state.calls, runner.admission, load_report=LoadReport(state))
    execute = partial(execute_unary, runner, SharedMemory(False, ()))
    yield handlers.unary("ExecuteOperator", execute).stream_unary
    completions.close()


async def crossed_files(handler: Any) -> set[str]:
    """Returns the server's files with a function that runs for one call."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    context = Context([REQUEST])
    sys.setprofile(note)
    try:
        assert await handler(None, context)
        context.end()
    finally:
        sys.setprofile(None)
    return {os.path.relpath(file, ROOT) for file in files if file.startswith(f"{ROOT}/")}


async def test_a_small_call_of_a_known_form_crosses_nine_files(handler: Any) -> None:
    await crossed_files(handler)
    assert len(files := await crossed_files(handler)) <= 9, sorted(files)
