"""Every setting of the server, from flags, `ACLGRAD_*` variables and a TOML file, in that order of precedence."""

import tomllib
from collections.abc import Mapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES

_PREFIX = "ACLGRAD_"
GIBIBYTE = 2**30
OFF = "off"
MAX_TIME_S = 86400.0
MAX_MEMORY_BYTES = 2**48
"""More than a machine has."""
MAX_MESSAGE_BYTES = 2**31 - 1
"""What protobuf can hold at most."""


class Settings(BaseSettings):
    """What one server is started with; it is built once, at the edge, and never changes."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, allow_inf_nan=False
    )

    config: Path | None = Field(None, description="TOML file with settings under these names, with underscores.")
    listen: Annotated[tuple[str, ...], NoDecode] = Field(
        ("127.0.0.1:50051",), min_length=1, description="Address to serve on, host:port or unix:path; repeatable."
    )
    admin: str = Field(
        "127.0.0.1:9464", description="Address of the HTTP listener with /livez and /readyz, host:port, or off."
    )
    backend: str = Field("auto", description="Device library: auto, ascend, host, or the path of an ACL library.")
    acl_config: Path | None = Field(None, description="JSON file for aclInit.")
    device: Annotated[tuple[int, ...], NoDecode] = Field(
        (), description="Index of a device to serve on; repeatable; all devices by default."
    )
    streams: PositiveInt = Field(4, le=1024, description="Calls that run at once on one device.")
    max_waiting_calls: PositiveInt = Field(64, le=4096, description="Calls that may wait for their turn.")
    pool_bytes: PositiveInt | None = Field(
        None,
        le=MAX_MEMORY_BYTES,
        description="Bound on the memory pool of one device; 90 % of its free memory by default.",
    )
    pool_keep_bytes: NonNegativeInt | None = Field(
        None,
        le=MAX_MEMORY_BYTES,
        description="Free memory goes back to the device while a pool holds more than this; never by default.",
    )
    pool_pass_through: bool = Field(False, description="Ask the device for every block; for checking, not for speed.")
    executor_cache: Literal["auto", "on", "off"] = Field(
        "auto", description="Run executors again; auto: where the library is known to do that rightly."
    )
    shape_only: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Take inputs that are not read as shapes; auto: where the device is known not to read them.",
    )
    deterministic: bool = Field(False, description="Ask the device for the same bits for the same call.")
    shared_memory: bool = Field(False, description="Let clients on unix sockets name POSIX shared memory.")
    shared_memory_prefix: str = Field(
        "aclgrad-", pattern=r"^[A-Za-z0-9._-]{1,50}$", description="What the names of shared-memory objects begin with."
    )
    shared_memory_owner: Annotated[tuple[NonNegativeInt, ...], NoDecode] = Field(
        (), description="User id whose shared memory is taken; repeatable; the server's own by default."
    )
    hang_timeout_s: PositiveFloat = Field(
        60.0,
        le=MAX_TIME_S,
        description="A device is lost if a kernel does not end so long after its call, or a copy takes so long.",
    )
    max_message_bytes: PositiveInt = Field(
        DEFAULT_MESSAGE_BYTES,
        le=MAX_MESSAGE_BYTES,
        description="Largest message that is received or sent; larger calls go in chunks.",
    )
    max_call_bytes: PositiveInt | None = Field(
        None,
        le=MAX_MEMORY_BYTES,
        description="Memory that the tensors of one chunked call may take; half of the pool by default.",
    )
    memory_limit_bytes: PositiveInt | None = Field(
        None,
        le=MAX_MEMORY_BYTES,
        description="Memory of the process above which calls are refused; the control group's limit by default.",
    )
    reply_compression: Literal["none", "gzip"] = Field(
        "none", description="Compress replies for clients that take it; requests may be compressed in either case."
    )
    max_connection_age_s: PositiveFloat = Field(
        300.0,
        ge=0.1,
        le=MAX_TIME_S,
        description="Clients connect anew after this time, and so find new replicas; calls in flight go on.",
    )
    max_tensor_bytes: PositiveInt = Field(
        16 * GIBIBYTE, le=MAX_MEMORY_BYTES, description="Largest tensor that is taken or made."
    )
    max_roi_work: PositiveInt = Field(
        2**33, le=2**34, description="Work, in samples and cells over all channels, that one RoI align may ask for."
    )
    call_timeout_s: PositiveFloat = Field(
        300.0, le=MAX_TIME_S, description="Bound on the wait and the computation of one call."
    )
    client_timeout_s: PositiveFloat = Field(
        60.0,
        ge=0.1,
        le=MAX_TIME_S,
        description="Time that a client may take to send a message or 1 MiB of chunks, and to fetch as much.",
    )
    drain_timeout_s: PositiveFloat = Field(
        30.0, le=MAX_TIME_S, description="Time that calls in flight get when the server stops."
    )
    tune_allocator: bool = Field(
        True, description="Have glibc keep freed memory for later calls instead of unmapping it."
    )
    idle_trim_s: NonNegativeFloat = Field(
        30.0, le=MAX_TIME_S, description="Give free memory back when no call came for this time; 0: never."
    )
    loop_alarm_ms: NonNegativeFloat = Field(
        0.0, le=60_000, description="Log what holds the event loop for longer than this; 0: never."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe log line.")

    @field_validator("listen", "device", "shared_memory_owner", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """A variable of the environment holds a list as words separated by commas."""
        return tuple(word.strip() for word in value.split(",")) if isinstance(value, str) else value

    @field_validator("listen")
    @classmethod
    def _check_addresses(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            is_unix = address.startswith("unix:") and len(address) > len("unix:")
            if not is_unix:
                _check_host_and_port(address, "unix:path")
        return addresses

    @field_validator("admin")
    @classmethod
    def _check_admin(cls, address: str) -> str:
        if address != OFF:
            _check_host_and_port(address, OFF)
        return address

    @field_validator("listen", "device", "shared_memory_owner")
    @classmethod
    def _refuse_repeats(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        repeated = sorted({str(value) for value in values if values.count(value) > 1})
        # Port 0 is a new port each time.
        if any(not value.endswith(":0") for value in repeated):
            raise ValueError(f"{', '.join(repeated)} is given more than once")
        return values

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The file is itself a setting, so its name is looked up in the flags and the environment first."""
        assert isinstance(init_settings, InitSettingsSource)
        file = init_settings.init_kwargs.get("config") or env_settings().get("config")
        if file is None:
            return init_settings, env_settings
        if not Path(file).is_file():
            raise ValueError(f"config: {file} is no file")
        try:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"config: {file} is no TOML: {error}") from error


def _check_host_and_port(address: str, other: str) -> None:
    """Raises ValueError for an address that is not HOST:PORT; `other` may be given instead."""
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdecimal() and int(port) < 65536):
        remedy = f"give host:port (port 0 to 65535), [IPv6]:port or {other}"
        raise ValueError(f"{address!r} is no address; {remedy}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        right = f"[{host}]:{port}" if _is_ipv6(host) else f"[{address}]:50051"
        raise ValueError(f"{address!r} is an IPv6 address without brackets; give {right}")


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def variable_of(name: str) -> str:
    """Returns the variable of the environment that holds a setting."""
    return f"{_PREFIX}{name.upper()}"


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Returns the variables that look like settings and are none: a typing error would go unnoticed otherwise."""
    known = set(map(variable_of, Settings.model_fields))
    return sorted(name for name in environment if name.startswith(_PREFIX) and name not in known)
