"""POSIX shared memory that a client on the same host names: read and written by file operations.

If the client truncates the object, a mapping would kill the process; a file operation only returns fewer bytes.
"""

import errno
import os
import re
import stat
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from aclgrad.errors import AclgradError, InvalidFieldError, SharedMemoryUnavailableError
from aclgrad.sources import SharedRange
from aclgrad.wire.service import SHARED_FOLDER, SHARED_PREFIX
from aclgrad_server.calls.call import UNIX, Call, address_of, busy
from aclgrad_server.calls.schedule import IN_TABLE, Group, Key
from aclgrad_server.devices.device import Device, StagedTensor
from aclgrad_server.devices.steps import PlannedProgram

RETRY_AFTER_FILES_S: Final = 1.0
_NAME: Final = re.compile(rf"/{SHARED_PREFIX}[A-Za-z0-9._-]{{1,200}}")
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_OFFSET: Final = 2**62


class SharedMemory:
    """The objects that clients may name: with our prefix, and a file of one of these owners."""

    def __init__(self, enabled: bool, owners: Sequence[int]) -> None:
        self._enabled = enabled
        self._owners = tuple(owners) or (os.geteuid(),)

    def require(self, peer: str) -> None:
        """Raises SharedMemoryUnavailableError unless it is enabled and the client is on a unix socket."""
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
            # Some of our errors are OSErrors too: a deadline, a lost device.
            raise
        except OSError as error:
            _check_own_files(error)
            problem = f"{named.name} failed: {error.strerror}"
            raise InvalidFieldError.at(field, problem, "check the room in /dev/shm") from None
        finally:
            os.close(file)


class SharedTensors:
    """The tensors of a program in shared memory. The device's copies of inputs are checked."""

    def __init__(self, memory: SharedMemory, device: Device, call: Call, program: PlannedProgram) -> None:
        """Raises SharedMemoryUnavailableError if the client may not use shared memory."""
        memory.require(call.peer)
        self._memory = memory
        self._device = device
        self._deadline = call.deadline
        self._program = program

    async def bring(self, group: Group, held: Mapping[Key, StagedTensor]) -> None:
        """Fills the tensors that the group is the first to use."""
        for each in group.begins:
            field, range = self._source(each.key)
            if range is None:
                continue
            with self._memory.open(field, range, os.O_RDONLY) as file:
                count = await self._device.read_file(held[each.key], file, range.offset, self._deadline)
            if count != range.nbytes:
                problem = f"had {count} bytes left of {range.nbytes}"
                raise InvalidFieldError.at(field, problem, "keep the object as it is until the call has ended")

    def _source(self, key: Key) -> tuple[str, SharedRange | None]:
        number, position = key
        if number == IN_TABLE:
            return f"tensors[{position}].shared_memory", self._program.table[position].source.shared
        if position >= 0:
            return "", None
        step = self._program.steps[number]
        source, name = step.sources[-1 - position], step.plan.inputs[-1 - position].name
        return f"inputs[{name}].shared_memory", None if source is None else source.shared

    async def take(self, group: Group, held: Mapping[Key, StagedTensor], failures: Container[int]) -> None:
        """Writes the outputs of the group's steps that did not fail."""
        for each in group.steps:
            if each.number in failures:
                continue
            for position, (output, sink) in enumerate(zip(each.planned.plan.outputs, each.planned.sinks, strict=True)):
                if (range := sink.shared) is not None:
                    with self._memory.open(f"output_memory[{output.name}]", range, os.O_RDWR) as file:
                        tensor = held[each.number, position]
                        await self._device.write_file(tensor, file, range.offset, self._deadline)


def _check_own_files(error: OSError) -> None:
    """Raises ServerBusyError if the server itself could open no file: nothing is wrong with the client's object."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        problem = f"the server has no free file for shared memory ({error.strerror})"
        also = "; raise the limit of open files of the server (LimitNOFILE)"
        raise busy(problem, RETRY_AFTER_FILES_S, also) from None
