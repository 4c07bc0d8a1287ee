"""A worker's program without a server. Its n-th start does what entry n of FOLDER/plan.json says, or the last one.

It imports nothing of ours, because tests start it hundreds of times. FOLDER gets what tests want to know: `pids` and
`signals`, and the bytes of its orders in `N.orders`. What an entry may have is in the class `Life` of `lives.py`.
"""

import contextlib
import json
import os
import signal
import socket
import sys


def main(folder: str, index: str) -> None:
    with open(f"{folder}/pids", "a") as file:
        file.write(f"{os.getpid()} {os.getpgid(0)} {os.environ['ACL_HOST_PROCESSES']}\n")
    with open(f"{folder}/pids") as file:
        number = len(file.readlines())
    with open(f"{folder}/plan.json") as file:
        plan = json.load(file)
    life = plan[min(number, len(plan)) - 1]
    for name in life["catches"]:
        signal.signal(getattr(signal, name), lambda number, _: caught(folder, number, life["catches"]))
    if life["closes_input"]:
        os.close(0)
    else:
        with open(f"{folder}/{number}.new", "wb") as file:
            file.write(os.read(0, 2**16))
        os.replace(f"{folder}/{number}.new", f"{folder}/{number}.orders")
    if life["says"] is not None:
        answer(f"{folder}/{index}.sock", life["says"].encode(), life["answers"], life["then"])
    if life["end"] is not None:
        end(life["end"])
    while True:
        signal.pause()


def caught(folder: str, number: int, catches: "dict[str, int | None]") -> None:
    name = signal.Signals(number).name
    with open(f"{folder}/signals", "a") as file:
        file.write(f"{name}\n")
    code = catches[name]
    if code is not None:
        os._exit(code)


def answer(path: str, says: bytes, count: "int | None", then: "str | None") -> None:
    with socket.create_server(path, family=socket.AF_UNIX) as server:
        while True:
            if count == 0:
                if then is None:
                    return
                says, count = then.encode(), None
            connection, _ = server.accept()
            with connection:
                while connection.recv(4096)[-4:] not in (b"\r\n\r\n", b""):
                    pass
                with contextlib.suppress(OSError):
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(says) + says)
            count = None if count is None else count - 1


def end(code: int) -> None:
    if code >= 0:
        os._exit(code)
    os.kill(os.getpid(), -code)


if __name__ == "__main__":
    main(*sys.argv[1:])
