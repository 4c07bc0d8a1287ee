"""The base of both clients: their state and documentation."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

import os
from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import grpc.aio

from aclgrad._client.attempts import rpc_errors
from aclgrad._client.attempts.request_ids import new_ids
from aclgrad._client.attempts.retry import DEFAULT_CONNECT_TIMEOUT_S, DEFAULT_RETRIES, RetryPolicy
from aclgrad._client.calls.operator_methods import OperatorMethods, Result
from aclgrad._client.calls.requirements import Requirements
from aclgrad._client.channel.options import (
    OWN_CHANNEL,
    OWN_CHANNEL_DEFAULTS,
    ChannelOption,
    all_channel_options,
    check_own_channel,
    checked_options,
    open_channel,
)
from aclgrad._client.channel.pool import ChannelPool
from aclgrad._client.channel.probes import Channel
from aclgrad._client.channel.proxies import ENABLE_PROXY, proxy_rules
from aclgrad._client.channel.servers import Endpoints, Servers, servers_of
from aclgrad._client.channel.targets import DEFAULT_TARGET, Target, is_socket
from aclgrad._client.core import Core
from aclgrad._client.programs.batch import BaseBatch
from aclgrad._client.programs.program import BaseProgram
from aclgrad._client.reports import OnCall
from aclgrad._client.settings.checks import (
    DEFAULT,
    DEFAULT_TIMEOUT_S,
    Timeout,
    checked_hook,
    checked_seconds,
    checked_tracing,
    time_limit,
)
from aclgrad._client.settings.credentials import Credentials, checked_credentials
from aclgrad._client.settings.environment import named_by_variable, settings_of_environment
from aclgrad._client.settings.metadata import Metadata, checked_metadata
from aclgrad._client.transport import Transport
from aclgrad.errors import InvalidSettingError
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES

if TYPE_CHECKING:
    from aclgrad._client.shared_memory.loans import LendingPool
    from aclgrad.tracing import TracerProvider


class BaseClient(Core, OperatorMethods[Result]):
    """Runs operators on the server at `target` (`host:port` or `unix:path`), or on several.

    Calls, batches, programs and errors are the same in both clients; `await` what an AsyncClient returns.
    """

    def __init__(
        self,
        target: Target = DEFAULT_TARGET,
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
        shape_only: bool = True,
        shared_memory: bool = False,
        channel_options: Iterable[ChannelOption] = (),
        credentials: Credentials | None = None,
        metadata: Metadata = (),
        channel: grpc.Channel | grpc.aio.Channel | None = None,
        on_call: OnCall | None = None,
        tracing: bool | TracerProvider = False,
    ) -> None:
        """Raises InvalidSettingError for an argument that makes no sense.

        `target` may be a list of servers, or a text with commas between them: each call goes to one of them, by their
        load. A server whose host has several workers tells the client, which then uses all of them. A function that
        returns such a list or text is asked at the first call, after a lost connection and every 5 s in which calls
        are made, on a thread of the client; while it raises an error, the servers that are known stay.

        A call that takes longer than `timeout_s` seconds, with all its attempts, raises DeadlinePassedError; None sets
        no limit, and a call may have a `timeout_s` of its own. If the connection breaks, or the server asks for it, a
        call is sent again up to `retries` times, after delays that grow; the error of the last attempt is raised. If no
        server can be reached, a call waits up to `connect_timeout_s` seconds for one; that takes none of its retries.
        Whatever a call raises is an `aclgrad.AclgradError`.

        If an operator needs only the shape of an array, such as `input` of most, only the shape is sent. A server whose
        device may read the values asks for them; the client then sends the array, and keeps sending it for that
        operator. `shape_only=False` sends every array. `channel_options` are options of gRPC; they override the
        client's own.

        A message has at most `max_message_bytes`, 16 MiB as on a server by default. A larger call goes in chunks, a
        larger batch in several messages. If a server takes less, it refuses a message and names its limit; the client
        keeps that limit and sends the call again in smaller pieces. Raise `max_message_bytes` if the server takes more.

        With `shared_memory=True` and a server on the same host at a `unix:` target, large tensors go through shared
        memory, where the returned arrays stay; a forked child gets a copy of them, taken at the fork. Tensors that do
        not fit in /dev/shm are sent over the connection. If the server takes no shared memory from this client, its
        calls raise SharedMemoryUnavailableError.

        Every call has a request id, which is the same for all of its attempts and stands in the server's log. Errors
        have it as `request_id`; `on_call` is given a CallReport of each call that has ended, with its id, its time and
        its error, in the thread or task of the call and before the call returns. What `on_call` raises, the call
        raises. A call that is cancelled or interrupted has no report. `with aclgrad.request_id(...)` gives calls an id
        of yours.

        With `tracing=True`, calls and their attempts are spans of OpenTelemetry, below the span that is current at the
        call, and servers continue the trace. It takes a TracerProvider as well; True is the global one.

        `credentials` (aclgrad.Credentials) turn TLS on and say who the client is; without them it speaks plaintext.
        `metadata`, pairs or a mapping, goes with each call. `channel` is a channel of your own, of `grpc` for a Client
        and of `grpc.aio` for an AsyncClient, for example with interceptors. Its target and its options
        are yours then, and so is closing it: `close` only ends the client. Give its options `aclgrad.channel_options()`
        unless you know better.
        """
        checked_credentials(credentials)
        overrides = checked_options(channel_options)
        self._servers = _own_servers() if channel is not None else _servers(target, credentials, overrides)
        self.target = self._servers.name
        self.timeout_s = None if timeout_s is None else checked_seconds("timeout_s", timeout_s)
        self._limit_s = time_limit(self.timeout_s, None)
        self._retry_policy = RetryPolicy(retries, connect_timeout_s)
        self._requirements = Requirements(max_message_bytes, shape_only=shape_only)
        self._channel_options = overrides
        self._metadata = (*checked_metadata(metadata), *(credentials.metadata() if credentials else ()))
        # A unix socket does not leave the machine: servers have no TLS there.
        is_local = is_socket(self.target)
        self._channel_credentials = credentials.channel_credentials() if credentials and not is_local else None
        self._own_channel = channel
        if channel is not None:
            given = {"target": target, "channel_options": overrides}
            check_own_channel(channel, self._channel_kind, credentials=credentials, **given)
        if shared_memory and self._servers.are_several:
            problem = f"shared_memory is True, and {self.target} names several servers"
            raise InvalidSettingError(problem, field="shared_memory", remedy="give one unix:/path")
        self._regions = _new_regions() if shared_memory else None
        self._ids = new_ids()
        self._on_call = checked_hook("on_call", on_call)
        self._tracing = checked_tracing(tracing)
        self._process_id = os.getpid()
        self._channels = ChannelPool(self._servers, self._new_channel)
        self._transport = self._new_transport()

    @classmethod
    def from_env(cls, target: Target | None = None, **settings: Any) -> Self:
        """Returns a client with the settings of the environment; arguments override them.

        ACLGRAD_TARGET is the target, or several with commas; ACLGRAD_TIMEOUT_S (`none` for no limit),
        ACLGRAD_CONNECT_TIMEOUT_S, ACLGRAD_RETRIES, ACLGRAD_MAX_MESSAGE_BYTES and
        ACLGRAD_SHARED_MEMORY (true or false) are the arguments of these names. ACLGRAD_CA, ACLGRAD_CERTIFICATE,
        ACLGRAD_KEY (paths), ACLGRAD_TOKEN, ACLGRAD_SERVER_NAME and ACLGRAD_TLS (true or false) are the credentials.
        Raises InvalidSettingError that names the variable.
        """
        if target is not None:
            settings["target"] = target
        without = OWN_CHANNEL_DEFAULTS if settings.get("channel") is not None else ()
        try:
            return cls(**settings_of_environment({*settings, *without}), **settings)
        except InvalidSettingError as error:
            raise named_by_variable(error, settings) from None

    _channel_kind: ClassVar[type]
    """The type of `channel`."""
    _library: Any
    """`grpc` or `grpc.aio`."""

    @abstractmethod
    def _new_transport(self) -> Transport:
        """Returns the transport of this kind of client."""

    @abstractmethod
    def batch(self) -> BaseBatch[Any]:
        """Returns an empty batch: calls that share messages, which makes many small ones cheap."""

    @abstractmethod
    def program(self, product: str = "") -> BaseProgram[Any]:
        """Returns an empty program: steps that may use each other's outputs, and go to the server together.

        `product` names the only product for which it is right, if there is one, because of masks or statistics of that
        product: servers of others raise OtherProductError.
        """

    @abstractmethod
    def list_operators(self, *, timeout_s: Timeout = DEFAULT) -> Any:
        """Returns what the server can compute, and what each operator takes."""

    @abstractmethod
    def server_status(self, *, timeout_s: Timeout = DEFAULT) -> Any:
        """Returns what the server runs on and how busy it is."""

    @abstractmethod
    def wait_until_ready(self, timeout_s: Timeout = DEFAULT) -> Any:
        """Returns once the server says that it takes calls (`grpc.health.v1`), by default within the client's limit.

        Raises DeadlinePassedError that says what was seen last: no server at the address, or one that is not ready.
        Other errors are raised at once, such as MethodNotServedError by a server without health checks.
        """

    @abstractmethod
    def close(self) -> Any:
        """Closes the connection; calls in flight, or waiting for their next attempt, end with CallCancelledError.

        A channel of the caller's own stays open, and calls in flight on it go on.
        """

    def __repr__(self) -> str:
        state = "closed" if self._transport.closed.is_set() else "open"
        return f"<aclgrad.{type(self).__name__} of {self.target}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise rpc_errors.not_copyable_error(self.target)

    def _channel_to(self, endpoints: Endpoints) -> Any:
        """Returns a new channel; the user's own options go first, then those of the endpoints, then the client's."""
        own = self._channel_options
        if ENABLE_PROXY in dict(endpoints.options):
            # gRPC would take a list for one host, and ask the proxy for it.
            own = [each for each in own if each[0] != ENABLE_PROXY]
        options = all_channel_options(self._requirements.message_bytes, [*endpoints.options, *own])
        return open_channel(self._library, endpoints.target, self._channel_credentials, options)

    def _open_first_channel(self) -> None:
        """Opens the channel to the target, unless names have to be looked up for it."""
        endpoints = self._servers.endpoints
        if self._own_channel is not None:
            self._channels.start(Channel(Endpoints(self.target), self._own_channel))
        elif endpoints is not None:
            self._channels.start(self._new_channel(endpoints))

    def _new_channel(self, endpoints: Endpoints) -> Channel:
        return Channel(endpoints, self._channel_to(endpoints))


def _servers(target: Target, credentials: Credentials | None, options: list[ChannelOption]) -> Servers:
    given = dict(options)
    rules = proxy_rules(os.environ, given)
    if credentials is None:
        return servers_of(target, options=given, rules=rules)
    return servers_of(target, credentials.server_name, has_tls=credentials.tls, options=given, rules=rules)


def _new_regions() -> LendingPool:
    # Most clients do not need it.
    from aclgrad._client.shared_memory.loans import LendingPool

    return LendingPool()


def _own_servers() -> Servers:
    return Servers(OWN_CHANNEL, Endpoints(OWN_CHANNEL))
