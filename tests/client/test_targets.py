"""Which addresses of a server clients take, and what they say of the others."""

import re
from pathlib import Path

import pytest

import aclgrad
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import ScriptedService, serving

BAD = {
    "127.0.0.1": "names no port",
    "gpu-7.example": "names no port",
    "gpu-7.example:": "names no port",
    "[::1]": "names no port",
    "dns:///gpu-7.example": "names no port",
    "ipv4:127.0.0.1:50051,127.0.0.2": "names no port",
    "127.0.0.1:99999": "port 99999, which is no number from 1 to 65535",
    "127.0.0.1:0": "port 0,",
    f"127.0.0.1:{'9' * 5000}": "is no number",
    "127.0.0.1:-1": "port -1,",
    "127.0.0.1:http": "port http,",
    "127.0.0.1:50051 ": "has a space",
    " 127.0.0.1:50051": "has a space",
    "gpu 7:50051": "has a space",
    "dns:///gpu-7.example:50051 ": "has a space",
    "ipv4:127.0.0.1:50051, 127.0.0.2:50051": "has a space",
    "127.0.0.1:50051/v1": "port 50051/v1,",
    "127.0.0.1:\u0665\u0660": "is no number",
    "http://127.0.0.1:50051": "begins with http://, which gRPC does not have",
    "HTTPS://127.0.0.1:50051": "begins with HTTPS://",
    "tcp://127.0.0.1:50051": "begins with tcp://",
    "grpc://127.0.0.1": "begins with grpc://",
    "::1:50051": "IPv6 address without brackets",
    "fe80::1": "IPv6 address without brackets",
    ":50051": "names no host",
    "": "names no host",
    "unix:": "names no path",
    "unix://": "names no path",
}


async def test_a_target_that_names_no_server_is_refused(connect: Connect) -> None:
    for target, problem in BAD.items():
        with pytest.raises(aclgrad.InvalidSettingError, match=re.escape(problem)) as caught:
            connect(target)
        assert repr(target) in str(caught.value)
        assert "127.0.0.1:50051" in (caught.value.remedy or "")
        assert caught.value.field == "target"


GOOD = [
    "localhost:50051",
    "a_name:1",
    "gpu-7.example.:65535",
    "[::1]:50051",
    "[fe80::1%eth0]:50051",
    "dns:gpu-7.example:50051",
    "dns:///gpu-7.example:50051",
    "DNS:///gpu-7.example:50051",
    "dns://127.0.0.1/gpu-7.example:50051",
    "ipv4:127.0.0.1:50051",
    "ipv4:///127.0.0.1:50051",
    "ipv4:127.0.0.1:50051,127.0.0.2:50051",
    "ipv6:[::1]:50051,[::2]:50051",
    "unix:relative",
    "unix:/run/with spaces:and-colons",
    "unix:///run/aclgrad.sock",
    "unix:1",
    "unix-abstract:name",
    "vsock:2:50051",
    "xds:///service",
]


async def test_other_targets_are_left_to_grpc(connect: Connect) -> None:
    assert [connect(target).target for target in GOOD] == GOOD


async def test_every_form_of_an_address_reaches_the_server(
    connect: Connect, service: ScriptedService, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    with serving(f"unix:{path}") as local:
        local.answer = service.answer = lambda context: b""
        for form in ("{}", "dns:{}", "dns:///{}", "ipv4:{}", "ipv4:///{}", "ipv4:{0},{0}"):
            assert await maybe_await(connect(form.format(service.address)).list_operators()) == []
        for form in ("unix:{}", "unix://{}"):
            assert await maybe_await(connect(form.format(path)).list_operators()) == []
    assert (len(service.requests), len(local.requests)) == (6, 2)
