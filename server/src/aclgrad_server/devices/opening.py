"""Opens an ACL library and the process's device."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import aclgrad_native as native
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import STREAM_LIMITS, Product, product_of_soc
from aclgrad.units import counted
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import OTHER_STREAMS, STREAMS_PER_SLOT, Device, OnLost
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.library import open_library, runtime_file
from aclgrad_server.exits import StartError
from aclgrad_server.settings import Settings, is_on

log = logging.getLogger(__name__)

VISIBLE: Final = "ASCEND_RT_VISIBLE_DEVICES"
Opened = TypeVar("Opened")


@dataclass(frozen=True, slots=True)
class Library:
    """The device library; `shape_only` is that of `InputSpec.takes_shape`, `reads_views` that of `Limits`."""

    name: str
    runtime_version: str
    shape_only: bool | None
    executor_cache: bool
    """Whether executors are reused."""
    versions: Mapping[str, str]
    """Versions of the driver and of CANN's packages, by name."""
    computes_on_cpu: bool
    host_pointers: bool
    """Whether devices read the host's memory, so that calls need no copies."""
    reads_views: frozenset[str] = frozenset()


async def open_device(
    settings: Settings, completions: Completions, on_lost: OnLost, process_count: int = 1
) -> tuple[Library, Device]:
    """Opens the back end and the first device of the settings, or device 0, shared by `process_count` processes.

    Raises StartError with the remedy if the set-up is at fault, and UnfitDeviceError if the device cannot be opened or
    the driver does not return.
    """
    name, limit_s = Path(runtime_file(settings.backend)).name, settings.hang_timeout_s
    index = (*settings.device, 0)[0]
    opening = partial(_open_library, settings, index, process_count)
    library, version = await _opened(f"{name} does not start", limit_s, opening)
    make = partial(_make_device, library, index, settings, completions, on_lost, process_count)
    device = await _opened(f"device {index} does not open", limit_s, make)
    log.info("opened device %d, %s, with %s", index, device.soc_name, name)
    versions = {} if library.is_host else native.installed_versions()
    described = ", ".join(f"{package} {each}" for package, each in versions.items())
    log.info("libraries: %s; versions: %s", ", ".join(library.files), described or "none installed")
    # The host library reads no other values; a card may, depending on the product.
    shape_only = None if settings.shape_only == "auto" and not library.is_host else is_on(settings.shape_only, True)
    executor_cache = is_on(settings.executor_cache, library.is_host)
    reads_views = operators_with_views(settings.strided_inputs, library.is_host)
    facts = shape_only, executor_cache, versions, library.is_host, library.host_pointers, reads_views
    return Library(name, version, *facts), device


def operators_with_views(named: Sequence[str], default: bool) -> frozenset[str]:
    """Returns the operators that get strided inputs as they are; raises StartError for an unknown operator."""
    chosen = {"auto": OPERATORS if default else (), "all": OPERATORS, "none": ()}
    if len(named) == 1 and named[0] in chosen:
        return frozenset(chosen[named[0]])
    if unknown := [each for each in named if each not in OPERATORS]:
        raise StartError(f"--strided-inputs {unknown[0]} is no operator; give auto, all, none, or names of operators")
    return frozenset(named)


async def _opened(summary: str, limit_s: float, open: Callable[[], Opened]) -> Opened:
    """Returns the result of a function in a thread, which is left behind if it does not return in time."""
    try:
        async with asyncio.timeout(limit_s):
            return await asyncio.to_thread(open)
    except TimeoutError:
        problem = f"its driver has not returned within {limit_s:g} s (--hang-timeout-s)"
        raise UnfitDeviceError(summary, problem) from None
    except native.AclError as error:
        raise UnfitDeviceError(summary, str(error)) from error


def _make_device(library: native.AclLibrary, index: int, *arguments: Any) -> Device:
    try:
        return Device(library, index, *arguments)
    except native.AclError as error:
        if error.fault != "streams":
            raise
        product = product_of_soc(library.soc_name())
        limit = "streams" if product is None else f"{STREAM_LIMITS[product]} streams"
        remedy = "run fewer processes on it, or give them a smaller --streams"
        raise StartError(f"device {index} has none of its {limit} left for this process; {remedy}") from error


def product_of(soc_name: str) -> Product:
    """Returns the product of a SoC; raises StartError for one that this version does not serve."""
    product = product_of_soc(soc_name)
    if product is None:
        raise StartError(f"the SoC {soc_name!r} is not of a known product; this version serves {', '.join(Product)}")
    if not any(product in spec.products for spec in OPERATORS.values()):
        raise StartError(f"product {product} ({soc_name}) has none of the operators {', '.join(OPERATORS)}")
    return product


def check_streams(soc_name: str, slots: int, process_count: int) -> str:
    """Checks that a device has enough streams for `process_count` processes with `slots` each.

    Raises StartError if it does not.
    """
    needed = process_count * (STREAMS_PER_SLOT * slots + OTHER_STREAMS)
    if (product := product_of_soc(soc_name)) is None:
        return f"{needed} streams"
    limit = STREAM_LIMITS[product]
    if needed <= limit:
        return f"{needed} of the {limit} streams of a {product}"
    most = process_count * ((limit // process_count - OTHER_STREAMS) // STREAMS_PER_SLOT)
    workers = f" in each of {process_count} workers on one device" if process_count > 1 else ""
    told = f"{counted(slots, 'slot')} (--streams){workers} need {needed} streams, with those of small calls and copies"
    remedy = f"give at most {most}" if most > 0 else "start fewer workers"
    raise StartError(f"{told}; a {product} has {limit}: {remedy}")


def _open_library(settings: Settings, index: int, process_count: int) -> tuple[native.AclLibrary, str]:
    """Returns the library, which sees only this device, and its version."""
    config = None if settings.acl_config is None else str(settings.acl_config)
    os.environ[VISIBLE] = card = visible_card(os.environ, index)
    with open_library(settings.backend, config) as library:
        if (count := library.device_count()) != 1:
            problem = f"there is no device {index}: with {VISIBLE}={card} the runtime shows {counted(count, 'device')}"
            raise StartError(f"{problem}; see --device and {VISIBLE}")
        check_streams(library.soc_name(), settings.streams, process_count)
        return library, library.version()


def visible_card(environment: Mapping[str, str], index: int) -> str:
    """Returns the value of ASCEND_RT_VISIBLE_DEVICES that shows one card alone.

    If the variable is set, indices count its entries. Raises StartError for an index beyond them.
    """
    if (visible := environment.get(VISIBLE)) is None:
        return str(index)
    cards = visible_cards(visible)
    if not 0 <= index < len(cards):
        remedy = f"see --device, and give {VISIBLE} ascending indices with commas and without spaces"
        raise StartError(f"there is no device {index}: {VISIBLE}={visible!r} shows {len(cards)}; {remedy}")
    return cards[index]


def visible_cards(visible: str) -> list[str]:
    """Returns the indices that CANN reads: it stops at the first one that is not a number or does not ascend."""
    cards: list[str] = []
    for word in visible.split(","):
        if not (word.isascii() and word.isdecimal()) or (cards and int(word) <= int(cards[-1])):
            break
        cards.append(word)
    return cards
