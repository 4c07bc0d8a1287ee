"""Which listeners are open to the network, and what a server without TLS says of them."""

import pytest

from aclgrad_server.listen_addresses import check_exposure, dangers, is_local

LOCAL = ("127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "localhost:1", "unix:/run/aclgrad.sock")
OPEN = ("0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1", "nowhere.invalid:1", "[::ffff:0.0.0.0]:1")


def test_addresses_that_other_machines_reach_need_tls_or_a_word() -> None:
    check_exposure(LOCAL, has_tls=False, is_insecure=False)
    for address in OPEN:
        assert not is_local(address)
        remedies = r"--listen .* open to the network .*--tls-certificate.*--tls-key.*--insecure"
        with pytest.raises(ValueError, match=remedies):
            check_exposure([*LOCAL, address], has_tls=False, is_insecure=False)
        check_exposure([address], has_tls=True, is_insecure=False)
        check_exposure([address], has_tls=False, is_insecure=True)


def test_what_an_open_server_is_warned_of() -> None:
    tokens, everybody = "tokens come over the network without encryption", "everybody who reaches the server may call"
    for listen, protection, expected in (
        (LOCAL, (False, False, False), []),
        (OPEN, (False, False, False), [everybody]),
        (OPEN, (True, False, False), [everybody]),
        (OPEN, (False, False, True), [tokens]),
        (OPEN, (True, True, False), []),
        (OPEN, (True, False, True), []),
    ):
        told = list(dangers(listen, *protection))
        assert len(told) == len(expected)
        assert all(line.startswith(begin) for line, begin in zip(told, expected, strict=True))
