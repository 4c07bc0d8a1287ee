"""The line of the log that says what a server has opened, and with which settings."""

import logging
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from aclgrad.products import Product
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.opening import Library
from aclgrad_server.edge.memory_limit import memory_limit
from aclgrad_server.log_forms import fields
from aclgrad_server.settings import Settings, changed_settings

log = logging.getLogger(__name__)


def announce(settings: Settings, product: Product, library: Library, device: Device, addresses: Sequence[str]) -> None:
    """Logs it. Nothing of that is secret: of keys and identities, the settings have paths alone."""
    told: dict[str, Any] = {
        "version": version("aclgrad-server"),
        "product": product,
        "soc": device.soc_name,
        "device": device.index,
        "library": library.name,
        "runtime": library.runtime_version,
        "listen": " ".join(addresses),
        "tls": _on(settings.tls_certificate),
        "client_certificates": _on(settings.tls_client_ca),
        "identities": _on(settings.identities),
        "streams": settings.streams,
        "max_waiting_calls": settings.max_waiting_calls,
        "max_message_bytes": settings.max_message_bytes,
        "pool_bytes": device.pool_limit_bytes,
        "memory_bytes": memory_limit(settings.memory_limit_bytes),
    }
    changed = changed_settings(settings)
    text = _text(told) + (f"; settings: {_text(changed)}" if changed else "")
    log.info("serving %s", text, extra=fields(told | {"settings": changed}))


def _text(told: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in told.items())


def _on(setting: object) -> str:
    return "off" if setting is None else "on"
