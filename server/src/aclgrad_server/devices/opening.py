"""Opens an ACL library and its devices."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from aclgrad_server.devices import native
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import Device, OnLost
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.exits import StartError
from aclgrad_server.settings import Settings, is_on

log = logging.getLogger(__name__)

Opened = TypeVar("Opened")


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """The devices that one server owns, and their library; `shape_only` is that of `InputSpec.takes_shape`.

    `executor_cache` says that executors run again.
    """

    library: str
    runtime_version: str
    devices: tuple[Device, ...]
    shape_only: bool | None = None
    executor_cache: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the driver and of CANN's packages, by name."""
    computes_on_cpu: bool = False


async def open_devices(settings: Settings, completions: Completions, on_lost: OnLost) -> DeviceGroup:
    """Opens the back end and its devices, one after the other.

    Raises StartError with the remedy if the set-up is at fault, and UnfitDeviceError if a device cannot be opened or a
    driver does not return.
    """
    files = native.library_files(settings.backend)
    name, limit_s = Path(files[0][0]).name, settings.hang_timeout_s
    library, version, indices = await _opened(f"{name} does not start", limit_s, _open_library, settings)
    devices = []
    for index in indices:
        make = partial(Device, library, index, settings, completions, on_lost)
        try:
            devices.append(await _opened(f"device {index} does not open", limit_s, make))
        except UnfitDeviceError as error:
            error.index = index
            raise
    log.info("opened %d device(s) of %s with %s", len(devices), devices[0].soc_name, name)
    versions = {} if library.is_host else native.installed_versions()
    described = ", ".join(f"{package} {each}" for package, each in versions.items())
    log.info("libraries: %s; versions: %s", ", ".join(library.files), described or "none installed")
    # The host library is known to read nothing else; for a card it depends on the product.
    shape_only = None if settings.shape_only == "auto" and not library.is_host else is_on(settings.shape_only, True)
    executor_cache = is_on(settings.executor_cache, library.is_host)
    return DeviceGroup(name, version, tuple(devices), shape_only, executor_cache, versions, library.is_host)


async def _opened(summary: str, limit_s: float, open: Callable[..., Opened], *arguments: Any) -> Opened:
    """Returns what a function opens in a thread, which keeps the thread if it does not return in time."""
    try:
        async with asyncio.timeout(limit_s):
            return await asyncio.to_thread(open, *arguments)
    except TimeoutError:
        raise UnfitDeviceError(
            summary, f"its driver has not returned within {limit_s:g} s (--hang-timeout-s)"
        ) from None
    except native.AclError as error:
        raise UnfitDeviceError(summary, str(error)) from error


def _open_library(settings: Settings) -> tuple[native.AclLibrary, str, Sequence[int]]:
    """Returns the library, its version and the indices of the devices to serve."""
    config = None if settings.acl_config is None else str(settings.acl_config)
    try:
        library = native.open(settings.backend, config)
        count = library.device_count()
        indices = settings.device or range(count)
        unknown = [index for index in indices if not 0 <= index < count]
        if unknown or not indices:
            missing = ", ".join(map(str, unknown)) or 0
            remedy = "see --device and ASCEND_RT_VISIBLE_DEVICES"
            raise StartError(f"there is no device {missing}: the runtime shows {count}; {remedy}")
        return library, library.version(), indices
    except native.LibraryError as error:
        remedy = "give --backend host, ascend (after CANN's set_env.sh), or the path of an ACL library"
        raise StartError(f"backend {settings.backend!r}: {error}; {remedy}") from error
    except native.AclError as error:
        remedy = "check the devices with npu-smi and the file of --acl-config"
        raise StartError(f"backend {settings.backend!r}: {error}; {remedy}") from error
