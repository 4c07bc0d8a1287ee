"""ExecuteOperator with POSIX shared memory that a client on the same host names: read and written by file operations.

A mapping would end the process where the client cuts the object short; a file operation merely has fewer bytes.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from aclgrad.errors import AclgradError, InvalidFieldError, SharedMemoryUnavailableError
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorView
from aclgrad.wire.messages import response_of
from aclgrad.wire.service import SHARED_FOLDER, SHARED_PREFIX
from aclgrad_server.calls.call import UNIX, Call, address_of, busy
from aclgrad_server.devices.device import Device, Read, StagedTensor, Write
from aclgrad_server.devices.planning import PlannedStep

RETRY_AFTER_FILES_S: Final = 1.0
_NAME: Final = re.compile(rf"/{SHARED_PREFIX}[A-Za-z0-9._-]{{1,200}}")
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_OFFSET: Final = 2**62


class SharedMemory:
    """What the server lets clients name: objects whose names begin so and whose files have one of these owners."""

    def __init__(self, enabled: bool, owners: Sequence[int]) -> None:
        self._enabled = enabled
        self._owners = tuple(owners) or (os.geteuid(),)

    def require(self, peer: str) -> None:
        """Raises SharedMemoryUnavailableError unless it is turned on and the client came over a unix socket."""
        if address_of(peer) != UNIX:
            remedy = "connect to a unix: address of the server, or send the data itself"
            raise SharedMemoryUnavailableError("shared memory needs a unix socket", remedy=remedy)
        if not self._enabled:
            remedy = "send the data itself, or start the server with --shared-memory"
            raise SharedMemoryUnavailableError("the server takes no shared memory", remedy=remedy)

    @contextmanager
    def open(self, field: str, named: SharedRange, mode: int) -> Iterator[int]:
        """Yields the open file of an object that holds the range; raises InvalidFieldError if there is none."""
        if not _NAME.fullmatch(named.name):
            remedy = f"name it /{SHARED_PREFIX} and up to 200 letters, digits, dots, dashes and underscores"
            raise InvalidFieldError.at(f"{field}.name", f"is {named.name!r}", remedy)
        if not 0 <= named.offset <= _MAX_OFFSET:
            raise InvalidFieldError.at(
                f"{field}.offset_bytes", f"is {named.offset}", "send an offset within the object"
            )
        try:
            file = os.open(SHARED_FOLDER + named.name, mode | _FLAGS)
        except OSError as error:
            _check_own_files(error)
            problem = f"{named.name} cannot be opened: {error.strerror}"
            raise InvalidFieldError.at(field, problem, "create it before the call, for the server's user too") from None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidFieldError.at(field, f"{named.name} is no shared-memory object", "create it with shm_open")
            if status.st_uid not in self._owners:
                owners = ", ".join(map(str, self._owners))
                problem = f"{named.name} is of user {status.st_uid} and the server takes those of {owners}"
                raise InvalidFieldError.at(field, problem, "see --shared-memory-owner of the server")
            if named.offset + named.nbytes > status.st_size:
                problem = f"{named.name} has {status.st_size} bytes and the range ends at {named.offset + named.nbytes}"
                raise InvalidFieldError.at(field, problem, "make it large enough")
            yield file
        except AclgradError:
            # Some are an OSError too: a deadline, a lost device.
            raise
        except OSError as error:
            _check_own_files(error)
            problem = f"{named.name} failed: {error.strerror}"
            raise InvalidFieldError.at(field, problem, "check the room in /dev/shm") from None
        finally:
            os.close(file)


class SharedTransfer:
    """The tensors of one call that come or go by shared memory. The device's copy of inputs is checked."""

    def __init__(self, memory: SharedMemory, device: Device, call: Call, planned: PlannedStep) -> None:
        memory.require(call.peer)
        self._memory = memory
        self._device = device
        self._deadline = call.deadline
        self._planned = planned
        self._outputs = list(zip(planned.plan.outputs, planned.sinks, strict=True))

    async def bring(self, inputs: Mapping[str, StagedTensor]) -> Sequence[Write]:
        for spec, source in zip(self._planned.plan.spec.inputs, self._planned.sources, strict=True):
            if source is None or (range := source.shared) is None:
                continue
            field = f"inputs[{spec.name}].shared_memory"
            with self._memory.open(field, range, os.O_RDONLY) as file:
                count = await self._device.read_file(inputs[spec.name], file, range.offset, self._deadline)
            if count != range.nbytes:
                problem = f"had {count} bytes left of {range.nbytes}"
                raise InvalidFieldError.at(field, problem, "keep the object as it is until the call has ended")
        return ()

    def reads(self, outputs: Sequence[StagedTensor]) -> Sequence[Read]:
        pairs = zip(self._outputs, outputs, strict=True)
        return [(tensor, 0, each.reply_prefix, tensor.size_bytes) for (each, sink), tensor in pairs if sink.in_reply]

    async def take(self, outputs: Sequence[StagedTensor], messages: list[bytes]) -> bytes:
        read, pieces = iter(messages), []
        for (output, sink), tensor in zip(self._outputs, outputs, strict=True):
            if (range := sink.shared) is None:
                pieces.append(next(read))
                continue
            with self._memory.open(f"output_memory[{output.name}]", range, os.O_RDWR) as file:
                await self._device.write_file(tensor, file, range.offset, self._deadline)
            pieces.append(response_of(TensorView(output.name, output.type, range)))
        return pieces[0] if len(pieces) == 1 else await self._device.join(pieces)


def _check_own_files(error: OSError) -> None:
    """Raises ServerBusyError if the server itself could open no file: nothing is wrong with the client's object."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        problem = f"the server has no free file for shared memory ({error.strerror})"
        also = "; raise the limit of open files of the server (LimitNOFILE)"
        raise busy(problem, RETRY_AFTER_FILES_S, also) from None
