"""Opens a device and tests it as a start of the server does, in a process of its own: a driver may hang."""

import asyncio
import logging
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

from aclgrad.check.rows import Finding
from aclgrad.products import product_of_soc
from aclgrad_server.devices.device import Completions
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.opening import open_device
from aclgrad_server.devices.self_test import self_test
from aclgrad_server.doctor.subject import Found, Subject, bad, fine
from aclgrad_server.exits import StartError
from aclgrad_server.settings import Settings

_REMEDY = "see npu-smi info, CANN's log and the file of --acl-config"


def device(subject: Subject) -> Iterator[Found]:
    """Each device that a worker would have: whether it opens, and what it computes wrongly."""
    # Each process sees one device; a fork would have our threads' locks.
    context = multiprocessing.get_context("spawn")
    for index in dict.fromkeys(subject.cards):
        receiver, sender = context.Pipe(duplex=False)
        settings = subject.settings.model_copy(update={"device": (index,)})
        process = context.Process(target=_examine, args=(settings, sender))
        process.start()
        sender.close()
        try:
            yield f"device {index}", receiver.recv()
        except EOFError:
            process.join()
            yield f"device {index}", bad(f"the process that opened it ended with {process.exitcode}", _REMEDY)
        finally:
            process.kill()


def _examine(settings: Settings, sender: Connection) -> None:
    logging.getLogger().addHandler(logging.NullHandler())

    async def examine() -> None:
        # Sent before the loop ends: that would wait for a thread that a driver keeps.
        sender.send(await _opened_and_tested(settings))

    asyncio.run(examine())


async def _opened_and_tested(settings: Settings) -> Finding:
    try:
        _, device = await open_device(settings, Completions(), lambda *_: None)
        product = product_of_soc(device.soc_name)
        if product is None:
            return bad(f"the SoC {device.soc_name!r} is not of a known product", "give another card")
        off = await self_test(device, product, settings.hang_timeout_s)
    except (StartError, UnfitDeviceError) as error:
        return bad(str(error), _REMEDY)
    if off:
        return bad(f"it fails {', '.join(f'{name}: {why}' for name, why in off.items())}", "see `aclgrad check`")
    return fine(f"{device.soc_name} opens and passes the self-test")
