"""Both clients on a channel that the caller made."""

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest

import aclgrad
from aclgrad._client.channel.options import all_channel_options
from tools.calling import maybe_await

from .scripted_service import GRADIENT, INPUTS, ScriptedService


class Counting(grpc.UnaryUnaryClientInterceptor):
    methods: list[str]

    def __init__(self) -> None:
        self.methods = []

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        self.methods.append(details.method)
        return continuation(details, request)


class AsyncCounting(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self) -> None:
        self.methods: list[str] = []

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        method = details.method
        self.methods.append(method if isinstance(method, str) else method.decode())
        return await continuation(details, request)


Made = tuple[Any, Any, Any]


@pytest.fixture(params=["sync", "async"])
async def made(request: pytest.FixtureRequest, service: ScriptedService) -> AsyncIterator[Made]:
    """A kind of client, a channel for it with an interceptor, and the interceptor."""
    options = aclgrad.channel_options()
    if request.param == "sync":
        counting = Counting()
        channel = grpc.insecure_channel(service.address, options)
        yield aclgrad.Client, grpc.intercept_channel(channel, counting), counting
        channel.close()
    else:
        interceptor = AsyncCounting()
        async with grpc.aio.insecure_channel(service.address, options, interceptors=[interceptor]) as own:
            yield aclgrad.AsyncClient, own, interceptor


async def test_calls_go_through_the_channel_which_stays_open(made: Made) -> None:
    kind, channel, counting = made
    for _ in range(2):
        client = kind(channel=channel)
        assert (await maybe_await(client.execute("pool", INPUTS))).tolist() == GRADIENT.tolist()
        await maybe_await(client.close())
        with pytest.raises(aclgrad.CallCancelledError, match="your channel: the client is closed"):
            await maybe_await(client.execute("pool", INPUTS))
    assert counting.methods == ["/aclgrad.v1.OperatorService/ExecuteOperator"] * 2


async def test_a_channel_that_its_owner_closed(made: Made) -> None:
    kind, channel, _ = made
    client = kind(channel=channel)
    assert repr(client) == f"<aclgrad.{kind.__name__} of your channel, open>"
    await maybe_await(client.execute("pool", INPUTS))
    await maybe_await(channel.close())
    with pytest.raises(aclgrad.CallCancelledError, match="channel is closed"):
        await maybe_await(client.execute("pool", INPUTS))


async def test_what_the_channel_has_already_is_refused(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, channel, _ = made
    for setting, value in {"target": "other:1", "channel_options": [("a", 1)]}.items():
        with pytest.raises(aclgrad.InvalidSettingError, match=f"^{setting} is given beside a channel") as caught:
            kind(channel=channel, **{setting: value})
        assert caught.value.field == setting
    monkeypatch.setenv("ACLGRAD_TARGET", "other:1")
    monkeypatch.setenv("ACLGRAD_RETRIES", "2")
    assert (await maybe_await(kind.from_env(channel=channel).execute("pool", INPUTS))).size == GRADIENT.size
    other = aclgrad.AsyncClient if kind is aclgrad.Client else aclgrad.Client
    for wrong in (channel, "127.0.0.1:50051"):
        with pytest.raises(aclgrad.InvalidSettingError, match=r"^channel is a \w+; give a grpc\.") as caught:
            other(channel=wrong)
        assert caught.value.field == "channel"


def test_options_of_the_user_go_before_ours() -> None:
    options = all_channel_options(1000, [("grpc.keepalive_time_ms", 5), ("grpc.lb_policy_name", "round_robin")])
    assert len(dict(options)) == len(options)
    assert dict(options)["grpc.keepalive_time_ms"] == 5
    assert dict(options)["grpc.lb_policy_name"] == "round_robin"
    assert dict(options)["grpc.max_send_message_length"] == dict(options)["grpc.max_receive_message_length"] == 1000


def test_idle_channels_are_kept_alive() -> None:
    """All three, or the core's own rules leave an idle connection without pings."""
    options = dict(all_channel_options(1000))
    assert options["grpc.keepalive_time_ms"] > 0
    assert options["grpc.keepalive_permit_without_calls"] == 1
    assert options["grpc.http2.max_pings_without_data"] == 0
