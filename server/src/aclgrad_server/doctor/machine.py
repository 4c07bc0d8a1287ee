"""The resources of the machine or the container: device nodes, memory, limits, addresses."""

import glob
import os
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aclgrad.check.rows import Finding
from aclgrad_server.doctor.subject import Found, Subject, bad, fine, judged, noted
from aclgrad_server.doctor.workers import NODES
from aclgrad_server.edge.memory_limit import check_memory, memory_limit
from aclgrad_server.edge.process import OTHER_FILES
from aclgrad_server.exits import StartError
from aclgrad_server.limits import MAX_CONNECTIONS
from aclgrad_server.place import share_of
from aclgrad_server.settings import OFF

_MANAGERS: Final = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_DRIVER_FILES: Final = (
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/version.info",
    "/etc/ascend_install.info",
    "/usr/local/dcmi",
)
_UNIX: Final = "unix:"
_MAX_SOCKET_PATH: Final = 107
_SHARED_BYTES: Final = 64 * 2**20
"""Docker's default size of /dev/shm, which holds only a few tensors."""


def nodes(subject: Subject) -> Iterator[Found]:
    """The device nodes, and whether this user may open them."""
    if not subject.is_ascend:
        return
    cards = sorted(glob.glob(NODES))
    if not cards:
        remedy = "give the container the card (--device /dev/davinci0), or install the driver"
        if "KUBERNETES_SERVICE_HOST" in subject.environment:
            remedy = (
                "ask for it in the pod's limits, as huawei.com/Ascend910: 1, by the name that the device plugin has"
            )
        yield NODES, bad("there is no card", remedy)
    for node in cards:
        yield node, _node(node)
    for node in _MANAGERS:
        if os.path.exists(node):
            yield node, _node(node)
        else:
            yield node, noted("is not there; only the 950 does without devmm_svm")
    for process, node in _users(NODES):
        remedy = "serve a card by one server, or give each its --pool-bytes"
        yield node, noted(f"process {process} has it open; {remedy}")
    visible = subject.environment.get("ASCEND_RT_VISIBLE_DEVICES", "")
    beyond = [index for index in visible.split(",") if index.isdecimal() and int(index) >= len(cards)]
    if cards and beyond:
        remedy = "CANN counts the cards of this container from 0"
        yield (
            "ASCEND_RT_VISIBLE_DEVICES",
            bad(f"names {', '.join(beyond)} of {len(cards)} cards; {remedy}", "correct it"),
        )
    for path in _DRIVER_FILES:
        if not os.path.exists(path):
            yield path, noted("is not there; mount it from the host into a container")


def _users(pattern: str) -> Iterator[tuple[int, str]]:
    """Yields processes that have a card open, as far as this user may see them."""
    cards = set(glob.glob(pattern))
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target in cards:
            yield int(link.split("/")[2]), target


def _node(node: str) -> Finding:
    status = os.stat(node)
    found = f"owner {status.st_uid}:{status.st_gid}, mode {status.st_mode & 0o777:o}, for user {os.getuid()}"
    remedy = f"run as user {status.st_uid} or in group {status.st_gid} (UID and GID of the image)"
    return judged(os.access(node, os.R_OK | os.W_OK), found, remedy)


def memory(subject: Subject) -> Iterator[Found]:
    """The memory that the workers may use, and /dev/shm."""
    limit, count = memory_limit(subject.settings.memory_limit_bytes), len(subject.cards)
    found = f"{limit / 2**20:.0f} MiB"
    if count > 1:
        found += f", {share_of(limit, count) / 2**20:.0f} for each of {count} workers"
    try:
        check_memory(processes=count)
        yield "memory", fine(found, limit_bytes=limit)
    except StartError as error:
        yield "memory", bad(found, str(error), limit_bytes=limit)
    if subject.settings.shared_memory:
        free = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else 0
        remedy = "give the container more (docker: --shm-size 1g), or drop --shared-memory"
        found = f"{free / 2**20:.0f} MiB are free"
        yield "/dev/shm", judged(free > _SHARED_BYTES, found, remedy, free_bytes=free)


def limits(subject: Subject) -> Iterator[Found]:
    """Resource limits that the server or CANN runs into."""
    needed = MAX_CONNECTIONS + OTHER_FILES
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    remedy = f"raise the hard limit to {needed} (ulimit -Hn, docker: --ulimit nofile={needed})"
    yield "open files", judged(hard == resource.RLIM_INFINITY or hard >= needed, _limit(hard), remedy)
    _, locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    yield "locked memory", fine(_limit(locked))
    _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
    yield "threads of this user", fine(_limit(processes))


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def addresses(subject: Subject) -> Iterator[Found]:
    """The addresses to listen on."""
    for address in subject.settings.listen:
        for each, whose in _addresses(address, len(subject.cards)):
            yield f"--listen {address}{whose}", _unix(each) if each.startswith(_UNIX) else _tcp(each)
    if subject.settings.admin != OFF:
        yield f"--admin {subject.settings.admin}", _tcp(subject.settings.admin)


def _addresses(address: str, worker_count: int) -> Iterator[tuple[str, str]]:
    """Yields the address and, if there are several workers, each one's own with whose it is."""
    yield address, ""
    host, _, port = address.rpartition(":")
    is_unix = address.startswith(_UNIX)
    # Worker 0 has the path itself, and what follows port 0 is not known.
    for number in range(int(is_unix), worker_count if worker_count > 1 and (is_unix or int(port)) else 0):
        yield f"{address}.{number}" if is_unix else f"{host}:{int(port) + 1 + number}", f", worker {number}"


def _tcp(address: str) -> Finding:
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
    except OSError as error:
        return bad(f"cannot be bound: {error.strerror or error}", "stop what listens there, or give another address")
    return fine("is free")


def _unix(address: str) -> Finding:
    path = Path(address.removeprefix(_UNIX))
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
        return bad(f"has more than {_MAX_SOCKET_PATH} bytes", "give a shorter path")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return bad(f"{path.parent} is no folder that user {os.getuid()} may write to", "make it, or give another path")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        if client.connect_ex(str(path)) == 0:
            return bad("another process answers there", "stop it, or give another path")
    return fine("is free")
