"""The doctor knows which proxy gRPC goes through: each prediction is compared with what gRPC does."""

import pytest

import aclgrad
from aclgrad.testing import TestServer
from tests.commands import peers
from tests.commands.test_doctor import NO_VARIABLES, diagnosed, failure

PROXY = "http://trainer:pass%20word@PROXY"
# The variables, and whether gRPC goes through the proxy. PROXY stands for its address.
CASES = {
    "none": ({}, False),
    "http_proxy": ({"http_proxy": PROXY}, True),
    "https_proxy": ({"https_proxy": PROXY}, True),
    "grpc_proxy": ({"grpc_proxy": PROXY, "http_proxy": "http://127.0.0.1:1"}, True),
    "upper_case": ({"HTTP_PROXY": PROXY}, False),
    "empty": ({"grpc_proxy": "", "http_proxy": PROXY}, False),
    "another_scheme": ({"https_proxy": "https://PROXY"}, False),
    "no_url": ({"http_proxy": "PROXY"}, False),
    "excepted": ({"http_proxy": PROXY, "no_proxy": "localhost, 127.0.0.1"}, False),
    "excepted_by_its_end": ({"http_proxy": PROXY, "no_proxy": ".0.1"}, False),
    "excepted_by_whole_labels_alone": ({"http_proxy": PROXY, "no_proxy": "7.0.0.1"}, True),
    "a_space_is_no_exception": ({"http_proxy": PROXY, "no_proxy": " , "}, True),
    "a_space_before_the_proxy": ({"http_proxy": f" {PROXY}"}, False),
    "a_space_behind_it": ({"http_proxy": f"{PROXY} "}, True),
    "excepted_network": ({"http_proxy": PROXY, "no_proxy": "127.0.0.0/8"}, False),
    "another_network": ({"http_proxy": PROXY, "no_proxy": "10.0.0.0/8,"}, True),
    "a_star_is_no_pattern": ({"http_proxy": PROXY, "no_proxy": "*"}, True),
    "localhost_is_another_name": ({"http_proxy": PROXY, "no_proxy": "localhost"}, True),
    "upper_case_exception": ({"http_proxy": PROXY, "NO_PROXY": "127.0.0.1"}, True),
    "a_mask_is_a_number_of_bits": ({"http_proxy": PROXY, "no_proxy": "127.0.0.0/255.0.0.0"}, True),
    "a_mask_of_the_host": ({"http_proxy": PROXY, "no_proxy": "127.0.0.0/0.255.255.255"}, True),
    "no_mask": ({"http_proxy": PROXY, "no_proxy": "127.0.0.0/"}, True),
    "a_hexadecimal_mask": ({"http_proxy": PROXY, "no_proxy": "127.0.0.1/0x8"}, True),
    "a_mask_beyond_32_bits": ({"http_proxy": PROXY, "no_proxy": "127.0.0.1/4294967296"}, True),
    "a_mask_longer_than_the_number": ({"http_proxy": PROXY, "no_proxy": "127.0.0.1/64"}, False),
    "that_of_another_number": ({"http_proxy": PROXY, "no_proxy": "127.0.0.2/64"}, True),
    "a_mask_with_a_space": ({"http_proxy": PROXY, "no_proxy": "127.0.0.1/ 32"}, False),
    "a_mask_with_a_sign": ({"http_proxy": PROXY, "no_proxy": "127.0.0.2/+8"}, False),
    "another_family": ({"http_proxy": PROXY, "no_proxy": "::/0"}, True),
    "a_byte_in_the_password": ({"http_proxy": "http://trainer:p%E9word@PROXY"}, True),
    "a_bracket_in_the_password": ({"http_proxy": "http://trainer:p[word@PROXY"}, True),
    "two_signs_in_the_password": ({"http_proxy": "http://trainer:p@word@PROXY"}, True),
    "a_path": ({"http_proxy": f"{PROXY}/path?query#fragment"}, True),
    "an_empty_query": ({"http_proxy": f"{PROXY}?"}, False),
    "upper_case_scheme": ({"http_proxy": "HTTP://PROXY"}, True),
    "no_host": ({"http_proxy": "http://trainer:password@"}, False),
    "hidden_exception": ({"http_proxy": PROXY, "no_grpc_proxy": "a.example", "no_proxy": "127.0.0.1"}, True),
}


@pytest.mark.parametrize(("variables", "is_used"), CASES.values(), ids=CASES)
def test_the_way_is_that_of_grpc(
    testing: TestServer, variables: dict[str, str], is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = peers.HttpProxy()
    with peers.listening(proxy.behave) as address:
        given = {name: value.replace("PROXY", address) for name, value in variables.items()}
        for name in NO_VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        with aclgrad.Client(testing.target, retries=0) as client:
            client.server_status()
        assert bool(proxy.requests) is is_used
        by_grpc = [each.splitlines() for each in proxy.requests]
        proxy.requests.clear()
        rows, exit_code = diagnosed(testing.target, **given)
        assert exit_code == 0
        assert bool(proxy.requests) is is_used
    assert rows["network", "proxy"]["message"].startswith("none: ") is not is_used
    assert (("network", "way through the proxy") in rows) is is_used
    assert "word" not in str(rows)
    if is_used:
        assert rows["network", "way through the proxy"]["verdict"] == "passed"
        assert rows["network", "connection"]["message"].startswith(address)
        # The proxy cannot tell the doctor from gRPC.
        authorization = [line for line in by_grpc[0] if line.lower().startswith("proxy-auth")]
        assert proxy.requests[0].splitlines()[0] == by_grpc[0][0]
        assert [line.replace(" ", "") for line in proxy.requests[0].splitlines() if line.startswith("Proxy-")] == [
            line.replace(" ", "") for line in authorization
        ]


def test_a_proxy_that_refuses(testing: TestServer) -> None:
    with peers.listening(peers.speak_http1) as address:
        name, message = failure(testing.target, http_proxy=f"http://{address}")
    assert name == ("network", "way through the proxy")
    assert "does not lead to 127.0.0.1: it answers 'HTTP/1.1 400 Bad Request'; have the proxy allow it" in message
    assert message.endswith("or add 127.0.0.1 to no_proxy if there is a direct way")


def test_a_proxy_that_wants_another_password(testing: TestServer) -> None:
    with peers.listening(peers.want_another_password) as address:
        name, message = failure(
            testing.target, http_proxy=f"http://trainer:secret@{address}", no_grpc_proxy="a.example"
        )
    assert name == ("network", "way through the proxy")
    assert "check the user and the password, or add 127.0.0.1 to no_grpc_proxy, which hides no_proxy" in message
    assert "secret" not in message


@pytest.mark.parametrize("port", ["99999", "abc", "0", "-1"])
def test_a_proxy_whose_port_is_none(testing: TestServer, port: str) -> None:
    name, message = failure(testing.target, http_proxy=f"http://127.0.0.1:{port}")
    assert name == ("network", "proxy")
    assert message.startswith(f"the proxy 127.0.0.1:{port} of http_proxy has a port that is no number from 1 to 65535")


def test_a_password_with_a_slash_is_not_shown(testing: TestServer) -> None:
    _, message = failure(testing.target, http_proxy="http://trainer:sec/ret@127.0.0.1:1")
    assert "the proxy trainer:? of http_proxy" in message
    assert "sec" not in message


def test_a_proxy_that_is_not_there(testing: TestServer) -> None:
    name, message = failure(testing.target, grpc_proxy="http://127.0.0.1:1")
    assert name == ("network", "connection")
    assert message.startswith("the proxy of grpc_proxy cannot be used: 127.0.0.1:1 refuses connections")
    assert message.endswith("correct the variable, or add 127.0.0.1 to no_proxy if there is a direct way")
