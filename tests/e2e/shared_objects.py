"""Objects in /dev/shm under names of one test's own, and servers that take them."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorView
from aclgrad.wire import service
from aclgrad.wire.messages import OperatorCall, encode_request
from tools.raw_calls import SERVICE, TIMEOUT_S
from tools.serving import Server

FOLDER = Path(service.SHARED_FOLDER)


def sharing_server(folder: Path, *flags: str, changes: str = "") -> Server:
    """Returns a server that takes shared memory, on a unix socket and on a port."""
    listen = f"unix:{folder}/server", "127.0.0.1:0"
    return Server("--shared-memory", "true", *flags, listen=listen, changes=changes)


class Objects:
    """Objects whose names begin alike and like nobody else's."""

    def __init__(self) -> None:
        self.prefix = f"{service.SHARED_PREFIX}{secrets.token_hex(6)}-"

    def path(self, name: str) -> Path:
        return FOLDER / f"{self.prefix}{name}"

    def create(self, name: str, data: bytes | memoryview, *, at: int = 0) -> SharedRange:
        """Writes an object with the data at an offset, and returns the range that holds it."""
        self.path(name).write_bytes(bytes(at) + data)
        return SharedRange(f"/{self.path(name).name}", at, len(data))

    def content(self, range: SharedRange) -> bytes:
        return (FOLDER / range.name[1:]).read_bytes()[range.offset : range.offset + range.nbytes]

    def names(self) -> list[str]:
        return sorted(each.name for each in FOLDER.glob(f"{self.prefix}*"))

    def share(self, call: OperatorCall, *, output_bytes: int = 0, at: int = 0) -> OperatorCall:
        """Returns the call with each input that has data in an object of its own, and the output as well if asked."""
        inputs = tuple(
            TensorView(each.name, each.type, self.create(each.name, each.data, at=at))
            if isinstance(each.data, memoryview)
            else each
            for each in call.inputs
        )
        output = OPERATORS[call.operator].outputs[0].name
        memory = {output: self.create("output", bytes(output_bytes), at=at)} if output_bytes else {}
        return OperatorCall(call.operator, inputs, call.attributes, memory)

    def remove(self) -> None:
        for name in self.names():
            path = FOLDER / name
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@contextmanager
def own_objects() -> Iterator[Objects]:
    objects = Objects()
    try:
        yield objects
    finally:
        objects.remove()


def send(channel: Any, call: OperatorCall, timeout_s: float = TIMEOUT_S) -> bytes:
    """Returns the serialized ExecuteOperatorResponse."""
    return channel.unary_unary(SERVICE + "ExecuteOperator")(encode_request(call), timeout=timeout_s)


def with_input(call: OperatorCall, name: str, content: SharedRange) -> OperatorCall:
    """Returns the call with this content of one input."""
    inputs: Sequence[TensorView] = [
        TensorView(each.name, each.type, content) if each.name == name else each for each in call.inputs
    ]
    return OperatorCall(call.operator, tuple(inputs), call.attributes, call.output_memory)


def open_files(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.process_id}/fd"))
