"""What the benchmark of steps is made of: a relay's delay, and what a server tells of its programs."""

import socket
import threading
import time

import numpy as np

import aclgrad
from tools.calling import wait_until
from tools.changed_server import Told
from tools.lab.relay import Relay
from tools.serving import Server

DELAY_S = 0.2
SENT = bytes(range(256)) * 4096


def test_a_delay_takes_nothing_from_the_rate() -> None:
    """A relay that waited with each piece in turn would take 16 times as long for these."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        echo = threading.Thread(target=_echo, args=(listener,))
        echo.start()
        with Relay(listener.getsockname()[1], delay_s=DELAY_S) as relay:
            host, _, port = relay.address.rpartition(":")
            begin = time.monotonic()
            with socket.create_connection((host, int(port))) as client:
                sender = threading.Thread(target=client.sendall, args=(SENT,))
                sender.start()
                received = b""
                while len(received) < len(SENT):
                    received += client.recv(65_536)
                seconds = time.monotonic() - begin
                sender.join()
        echo.join()
    assert received == SENT
    assert 2 * DELAY_S <= seconds < 8 * DELAY_S


def _echo(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        while piece := connection.recv(65_536):
            connection.sendall(piece)


def test_a_server_tells_what_its_programs_took() -> None:
    array = np.ones((1, 1, 64, 64), np.float32)
    with Server(changes="tell_programs") as server, aclgrad.Client(server.address) as client:
        program = client.program()
        made = program.tanh_backward(program.tanh_backward(array, array), array)
        program.run(made)
        client.tanh_backward(array, array)
        wait_until(lambda: len(Told.all_in(server.log)) == 2, look_s=0.05)
        of_program, of_call = Told.all_in(server.log)
    assert (of_program.steps, of_call.steps) == (2, 1)
    for each in (of_program, of_call):
        assert 0 < each.planned_s < 10
        assert 0 < each.kernels_s < 10
    assert of_program.claimed_bytes > of_call.claimed_bytes >= array.nbytes
