"""POSIX shared memory that a client on the same host names: opened, checked, and read or written by file operations.

A mapping would end the process where the client cuts the object short; a file operation merely has fewer bytes.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from aclgrad.errors import AclgradError, InvalidFieldError, SharedMemoryUnavailableError, Violation
from aclgrad.tensors import SharedRange
from aclgrad_server.devices.device import StagedTensor
from aclgrad_server.plan import OperatorPlan

_FOLDER: Final = "/dev/shm"
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_OFFSET: Final = 2**62


class SharedMemory:
    """What the server lets clients name: objects whose names have a prefix and whose files have one of these owners."""

    def __init__(self, enabled: bool, prefix: str, owners: Sequence[int]) -> None:
        self._enabled = enabled
        self._name = re.compile(re.escape(f"/{prefix}") + r"[A-Za-z0-9._-]{1,200}")
        self._prefix = prefix
        self._owners = tuple(owners) or (os.geteuid(),)

    def require(self, peer: str) -> None:
        """Raises SharedMemoryUnavailableError unless it is turned on and the client came over a unix socket."""
        if not peer.startswith("unix:"):
            remedy = "connect to a unix: address of the server, or send the data itself"
            raise SharedMemoryUnavailableError(f"shared memory needs a unix socket; {remedy}", remedy=remedy)
        if not self._enabled:
            remedy = "send the data itself, or start the server with --shared-memory"
            raise SharedMemoryUnavailableError(f"the server takes no shared memory; {remedy}", remedy=remedy)

    async def fill(self, plan: OperatorPlan, staged: Mapping[str, StagedTensor], deadline: float) -> None:
        """Reads every input that is in shared memory; raises InvalidFieldError if that fails."""
        for tensor in plan.inputs:
            if isinstance(tensor.data, SharedRange):
                field = f"inputs[{tensor.name}].shared_memory"
                with self.open(field, tensor.data, os.O_RDONLY) as file:
                    count = await staged[tensor.name].read_file(file, tensor.data.offset, deadline)
                if count != tensor.data.nbytes:
                    problem = f"had {count} bytes left of {tensor.data.nbytes}"
                    raise _wrong(field, problem, "keep the object as it is until the call has ended")

    async def write(self, name: str, target: SharedRange, output: StagedTensor, deadline: float) -> None:
        """Writes an output to its place; raises InvalidFieldError if that fails."""
        with self.open(f"output_memory[{name}]", target, os.O_RDWR) as file:
            await output.write_file(file, target.offset, deadline)

    @contextmanager
    def open(self, field: str, named: SharedRange, mode: int) -> Iterator[int]:
        """Yields the open file of an object that holds the range; raises InvalidFieldError where there is none."""
        if not self._name.fullmatch(named.name):
            remedy = f"name it /{self._prefix} and up to 200 letters, digits, dots, dashes and underscores"
            raise _wrong(f"{field}.name", f"is {named.name!r}", remedy)
        if not 0 <= named.offset <= _MAX_OFFSET:
            raise _wrong(f"{field}.offset_bytes", f"is {named.offset}", "send an offset within the object")
        try:
            file = os.open(_FOLDER + named.name, mode | _FLAGS)
        except OSError as error:
            problem = f"{named.name} cannot be opened: {error.strerror}"
            raise _wrong(field, problem, "create it before the call, for the server's user too") from None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise _wrong(field, f"{named.name} is no shared-memory object", "create it with shm_open")
            if status.st_uid not in self._owners:
                owners = ", ".join(map(str, self._owners))
                problem = f"{named.name} is of user {status.st_uid} and the server takes those of {owners}"
                raise _wrong(field, problem, "see --shared-memory-owner of the server")
            if named.offset + named.nbytes > status.st_size:
                problem = f"{named.name} has {status.st_size} bytes and the range ends at {named.offset + named.nbytes}"
                raise _wrong(field, problem, "make it large enough")
            yield file
        except AclgradError:
            # Some are an OSError too: a deadline, a lost device.
            raise
        except OSError as error:
            problem = f"{named.name} failed: {error.strerror}"
            raise _wrong(field, problem, "check the room in /dev/shm") from None
        finally:
            os.close(file)


def _wrong(field: str, problem: str, remedy: str) -> InvalidFieldError:
    return InvalidFieldError.of(Violation(field, problem, remedy))
