"""Identities: who may call what, how others are refused, and what changes with the file while the server runs."""

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aclgrad import errors
from aclgrad.errors import from_status
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import encode_request
from tools.authority import Authority, write_identities
from tools.calling import wait_until
from tools.raw_calls import SERVICE, SMALL, TIMEOUT_S
from tools.serving import Server

REQUEST = encode_request(SMALL["adaptive_avg_pool2d_backward"])
IDENTITIES = {
    "trainer": {"token": "trainers-token"},
    "monitor": {"token": "monitors-token", "rights": ["status"]},
    "neighbour": {"unix_socket": True, "rights": ["execute", "status"], "max_calls": 1},
    "suspended": {"token": "suspended-token", "rights": []},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identities")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    file = write_identities(folder / "identities.toml", IDENTITIES)
    listen = "127.0.0.1:0", f"unix:{folder}/socket"
    with Server("--identities", file, "--unix-socket-mode", "0600", listen=listen) as running:
        yield running


def call(
    channel: grpc.Channel, method: str = "ExecuteOperator", request: bytes = REQUEST, **metadata: str
) -> bytes | errors.AclgradError:
    """Returns the reply, or the error of ours that the status reports."""
    try:
        pairs = tuple((key.replace("_", "-"), value) for key, value in metadata.items())
        return channel.unary_unary(SERVICE + method)(request, metadata=pairs, timeout=TIMEOUT_S)
    except grpc.RpcError as failure:
        trailers = dict(failure.trailing_metadata())
        error = from_status(status_pb2.Status.FromString(trailers["grpc-status-details-bin"]))
        # The two have to agree.
        return error if error is not None and error.code is failure.code() else errors.AclgradError(str(failure))


def silence(until: threading.Event) -> Iterator[bytes]:
    until.wait(TIMEOUT_S)
    yield from ()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_only_a_known_token_in_its_place_lets_in(server: Server) -> None:
    with server.channel() as channel:
        for metadata, told in (
            ({}, "the call has neither token nor certificate"),
            (bearer("trainers-tokem"), "the token is not known"),
            (bearer(""), "is no bearer token"),
            ({"authorization": "trainers-token"}, "is no bearer token"),
            ({"authorization": "Basic trainers-token"}, "is no bearer token"),
            ({"token": "trainers-token"}, "the call has neither token nor certificate"),
            ({"x_api_key": "trainers-token"}, "the call has neither token nor certificate"),
        ):
            error = call(channel, **metadata)
            assert type(error) is errors.NotAuthenticatedError
            assert told in error.message
            assert "authorization: Bearer TOKEN" in str(error.remedy)
            assert error.reason == "UNAUTHENTICATED"
            assert isinstance(call(channel, **bearer("trainers-token")), bytes)
        assert isinstance(call(channel, authorization="bearer trainers-token"), bytes)
    assert "trainers-toke" not in server.log


def test_nobody_calls_any_method_but_health_without_an_identity(server: Server) -> None:
    with server.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S).status == 1
        for method in pb.DESCRIPTOR.services_by_name["OperatorService"].methods:
            assert type(call(channel, method.name, b"")) is errors.NotAuthenticatedError, method.name
        described = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([]), timeout=TIMEOUT_S)
        with pytest.raises(grpc.RpcError, match="UNAUTHENTICATED"):
            list(described)


def test_rights_decide_what_a_caller_may_do(server: Server) -> None:
    may = {
        "trainers-token": {"ExecuteOperator", "ListOperators", "GetServerStatus", "reflection"},
        "monitors-token": {"GetServerStatus", "all of the status"},
        "suspended-token": set(),
    }
    with server.channel() as channel:
        for token, expected in may.items():
            allowed = set()
            for method, request in (("ExecuteOperator", REQUEST), ("ListOperators", b""), ("GetServerStatus", b"")):
                answer = call(channel, method, request, **bearer(token))
                if isinstance(answer, bytes):
                    allowed.add(method)
                    if method == "GetServerStatus" and pb.GetServerStatusResponse.FromString(answer).devices:
                        allowed.add("all of the status")
                else:
                    assert type(answer) is errors.PermissionDeniedError
                    assert f"has no right to {method}" in answer.message
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            described = stub.ServerReflectionInfo(iter([request]), metadata=tuple(bearer(token).items()), timeout=60)
            with suppress(grpc.RpcError):
                list(described)
            if described.code() is grpc.StatusCode.OK:
                allowed.add("reflection")
            else:
                assert described.code() is grpc.StatusCode.PERMISSION_DENIED
            assert allowed == expected, token
        status = call(channel, "GetServerStatus", b"", **bearer("trainers-token"))
        assert isinstance(status, bytes)
        told = {field.name for field, _ in pb.GetServerStatusResponse.FromString(status).ListFields()}
        assert told == {"version", "product"}


def test_unix_socket_is_one_identity_with_as_many_calls_as_it_may_have(server: Server, folder: Path) -> None:
    assert (folder / "socket").stat().st_mode & 0o777 == 0o600
    own = [("grpc.use_local_subchannel_pool", 1)]
    with (
        grpc.insecure_channel(server.addresses[1]) as channel,
        grpc.insecure_channel(server.addresses[1], own) as another_connection,
        server.channel() as other,
    ):
        assert isinstance(call(channel), bytes)
        may_end = threading.Event()
        chunked = another_connection.stream_stream(SERVICE + "ExecuteProgramChunked")
        silent = chunked(silence(may_end))
        busy: Any = None

        def is_busy() -> bool:
            nonlocal busy, silent
            if not silent.is_active():
                # It met one of the others and was refused itself.
                silent = chunked(silence(may_end))
            busy = call(channel)
            return isinstance(busy, errors.ServerBusyError)

        wait_until(is_busy)
        assert "identity neighbour has as many calls in flight as it may have, 1" in busy.message
        assert busy.retry_after_s
        # That is no stranger's doing, of which an alert tells.
        with urllib.request.urlopen(f"http://{server.admin}/metrics") as reply:
            assert 'aclgrad_refused_rpcs_total{cause="share"} 0.0\n' not in reply.read().decode()
        # A token goes before the socket, and nobody else is held up.
        assert isinstance(call(channel, **bearer("trainers-token")), bytes)
        assert isinstance(call(other, **bearer("trainers-token")), bytes)
        may_end.set()
        silent.cancel()
        wait_until(lambda: isinstance(call(channel), bytes))


def test_token_that_is_taken_out_is_locked_out_at_the_next_call(server: Server, folder: Path) -> None:
    with server.channel() as channel:
        assert isinstance(call(channel, **bearer("trainers-token")), bytes)
        (folder / "identities.toml").write_text("")
        wait_until(lambda: "the last one stays" in server.log)
        assert isinstance(call(channel, **bearer("trainers-token")), bytes)
        write_identities(folder / "identities.toml", {"newcomer": {"token": "newcomers-token"}})
        wait_until(lambda: isinstance(call(channel, **bearer("newcomers-token")), bytes))
        assert type(call(channel, **bearer("trainers-token"))) is errors.NotAuthenticatedError
        write_identities(folder / "identities.toml", {"newcomer": {"token": "newcomers-token", "rights": []}})
        wait_until(lambda: isinstance(call(channel, **bearer("newcomers-token")), errors.PermissionDeniedError))
        write_identities(folder / "identities.toml", IDENTITIES)
        wait_until(lambda: isinstance(call(channel, **bearer("trainers-token")), bytes))


def test_name_in_a_certificate_is_an_identity_until_it_is_taken_out(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    trainer = {"sans": ["dns:trainer.example"]}
    file = tmp_path / "identities.toml"
    write_identities(file, {"trainer": trainer, "both": {"sans": ["dns:both.example"]}})
    flags = *authority.server_flags(), "--tls-client-ca", authority.ca, "--identities", str(file)
    pairs = {
        name: authority.pair(name, *sans)
        for name, sans in {
            "trainer": ["trainer.example"],
            "stranger": ["stranger.example"],
            "ambiguous": ["trainer.example", "both.example"],
        }.items()
    }
    with Server(*flags, "--reflection", "false") as server:
        channels = {name: authority.channel(server.address, pair) for name, pair in pairs.items()}
        assert isinstance(call(channels["trainer"]), bytes)
        for name, told in (("stranger", "no name in the certificate is known"), ("ambiguous", "several identities")):
            error = call(channels[name])
            assert type(error) is errors.NotAuthenticatedError
            assert told in error.message
        with pytest.raises(grpc.RpcError, match=r"UNIMPLEMENTED"):
            list(reflection_pb2_grpc.ServerReflectionStub(channels["trainer"]).ServerReflectionInfo(iter([])))
        write_identities(file, {"other": {"token": "others-token"}})
        wait_until(lambda: isinstance(call(channels["trainer"]), errors.NotAuthenticatedError))
        assert isinstance(call(channels["trainer"], **bearer("others-token")), bytes)
        for channel in channels.values():
            channel.close()
