"""The device nodes, and the files of the driver."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aclgrad.check.rows import Finding
from aclgrad_server.devices.visible import VISIBLE, visible_cards
from aclgrad_server.doctor.subject import Found, Subject, bad, judged, noted
from aclgrad_server.settings import Settings
from aclgrad_server.supervisor.cards import workers_of

NODES: Final = "/dev/davinci[0-9]*"
_MANAGERS: Final = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_DRIVER_FILES: Final = (
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/version.info",
    "/etc/ascend_install.info",
    "/usr/local/dcmi",
)


def cards_of(settings: Settings, environment: Mapping[str, str], is_ascend: bool) -> Sequence[int]:
    """Returns the device of each worker. Nodes tell how many cards there are: a driver may hang, and is not asked."""
    if is_ascend and not settings.device:
        count = len(glob.glob(NODES))
        if (visible := environment.get(VISIBLE)) is not None:
            count = min(count, len(visible_cards(visible)))
        settings = settings.model_copy(update={"device": tuple(range(count or 1))})
    return workers_of(settings)


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
