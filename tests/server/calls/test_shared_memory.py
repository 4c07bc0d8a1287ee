"""What the server opens in /dev/shm and what it refuses, and that no error in between is mistaken for another."""

import ctypes
import os
import resource
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from aclgrad.errors import (
    AclgradError,
    DeadlinePassedError,
    DeviceLostError,
    InvalidFieldError,
    ServerBusyError,
    SharedMemoryUnavailableError,
)
from aclgrad.sources import SharedRange
from aclgrad_server.calls.shared_memory import SharedMemory

NOBODY = 65534


@pytest.fixture
def path() -> Iterator[Path]:
    """An object of 100 bytes."""
    path = Path(f"/dev/shm/aclgrad-{secrets.token_hex(6)}")
    path.write_bytes(bytes(range(100)))
    yield path
    path.unlink(missing_ok=True)


@contextmanager
def as_nobody(path: Path) -> Iterator[None]:
    """Takes this thread's right to the file away, also from root, who needs no permission otherwise."""
    path.chmod(0)
    library = ctypes.CDLL(None)
    before = library.setfsuid(NOBODY) if os.geteuid() == 0 else None
    try:
        yield
    finally:
        if before is not None:
            library.setfsuid(before)


def range_of(path: Path, offset: int = 0, size_bytes: int = 100) -> SharedRange:
    return SharedRange(f"/{path.name}", offset, size_bytes)


def refusal(memory: SharedMemory, range: SharedRange, mode: int = os.O_RDONLY) -> str:
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InvalidFieldError) as caught, memory.open("output_memory[out]", range, mode):
        raise AssertionError("it was opened")
    assert caught.value.remedy
    assert len(os.listdir("/proc/self/fd")) == files
    return str(caught.value)


def test_only_where_it_is_turned_on_and_only_over_a_unix_socket() -> None:
    """The flag of the server is not advised if it would not help."""
    SharedMemory(True, ()).require("unix:")
    remote = "ipv4:127.0.0.1:5"
    for enabled, peer, remedy in (
        (False, "unix:", "start the server with --shared-memory"),
        (True, remote, "connect to a unix: address"),
        (False, remote, "connect to a unix: address"),
    ):
        with pytest.raises(SharedMemoryUnavailableError, match=remedy) as caught:
            SharedMemory(enabled, ()).require(peer)
        assert ("--shared-memory" in str(caught.value)) == (peer == "unix:")


def test_an_object_of_the_servers_own_user_by_default(path: Path) -> None:
    with SharedMemory(True, ()).open("field", range_of(path, 60, 40), os.O_RDONLY) as file:
        assert os.pread(file, 40, 60) == bytes(range(60, 100))
        # Nobody who is started meanwhile has it.
        assert not os.get_inheritable(file)
    assert "user" in refusal(SharedMemory(True, (os.geteuid() + 1,)), range_of(path))


MODES = pytest.mark.parametrize("mode", [os.O_RDONLY, os.O_RDWR], ids=["input", "output"])
NAMES = {
    "empty": "",
    "prefix_alone": "/aclgrad-",
    "other_prefix": "/psm_7f3a",
    "up": "/../etc/passwd",
    "up_after_prefix": "/aclgrad-../../etc/passwd",
    "below": "/aclgrad-x/y",
    "nul": "/aclgrad-x\0y",
    "space": "/aclgrad-x y",
    "not_ascii": "/aclgrad-\u0661",
    "long": f"/aclgrad-{'x' * 201}",
}


@MODES
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names(name: str, mode: int) -> None:
    told = refusal(SharedMemory(True, ()), SharedRange(name, 0, 100), mode)
    assert "name it /aclgrad- and up to 200 letters" in told
    assert len(told) < 1000


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "No such file"),
    "symlink": (lambda path: path.symlink_to("/etc/passwd"), "symbolic link"),
    "folder": (lambda path: path.mkdir(), ""),
    "fifo": (os.mkfifo, "no shared-memory object"),
    "socket": (lambda path: socket.socket(socket.AF_UNIX).bind(str(path)), "No such device"),
    "too_small": (lambda path: path.write_bytes(bytes(99)), "has 99 bytes"),
    "nothing": (lambda path: path.write_bytes(b""), "has 0 bytes"),
}


@MODES
@pytest.mark.parametrize(("make", "told"), KINDS.values(), ids=KINDS)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_objects(path: Path, make: Callable[[Path], object], told: str, mode: int) -> None:
    path.unlink()
    make(path)
    try:
        assert told in refusal(SharedMemory(True, ()), range_of(path), mode)
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()


@MODES
def test_without_permission(path: Path, mode: int) -> None:
    with as_nobody(path):
        told = refusal(SharedMemory(True, (os.geteuid(),)), range_of(path), mode)
    assert "Permission denied" in told
    assert "for the server's user too" in told


@pytest.mark.parametrize("error", [DeadlinePassedError("late"), DeviceLostError("lost")], ids=repr)
def test_errors_of_the_call_are_not_taken_for_those_of_the_file(path: Path, error: AclgradError) -> None:
    """They are kinds of OSError as well; a lost device that is not told as such would not end the server."""
    with pytest.raises(type(error)), SharedMemory(True, ()).open("field", range_of(path), os.O_RDONLY):
        raise error


def test_an_error_of_the_file_is_told_as_one_of_the_field(path: Path) -> None:
    memory = SharedMemory(True, ())
    with (
        pytest.raises(InvalidFieldError, match=r"failed: Bad file descriptor.*room in /dev/shm"),
        memory.open("field", range_of(path), os.O_RDONLY) as file,
    ):
        os.pwrite(file, b"x", 0)


@contextmanager
def without_a_free_file() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for file in taken:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def use(memory: SharedMemory, path: Path, is_open: bool) -> None:
    """Opens an object and duplicates its file, as for the thread that reads it; there is no free file from then on."""
    with ExitStack() as stack:
        if not is_open:
            stack.enter_context(without_a_free_file())
        file = stack.enter_context(memory.open("field", range_of(path), os.O_RDONLY))
        stack.enter_context(without_a_free_file())
        os.dup(file)


@pytest.mark.parametrize("is_open", [False, True], ids=["object", "duplicate"])
def test_a_server_without_a_free_file_says_that_it_is_its_own_shortage(path: Path, is_open: bool) -> None:
    with pytest.raises(ServerBusyError, match=r"no free file .*LimitNOFILE") as caught:
        use(SharedMemory(True, ()), path, is_open)
    assert caught.value.retry_after_s
