"""Every setting of the server, from flags, `ACLGRAD_*` variables and a TOML file, in that order of precedence."""

import ast
import os
from collections.abc import Mapping
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from aclgrad.extras import missing_libraries
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES
from aclgrad_server.files import UnusableFileError, check_trusted, read_trusted_toml
from aclgrad_server.listen_addresses import check_exposure, checked, host_and_port
from aclgrad_server.sizes import Bytes, text_of

_PREFIX = "ACLGRAD_"
_OF_CLIENTS: Final = (
    *("target", "timeout_s", "connect_timeout_s", "retries"),
    *("ca", "certificate", "key", "token", "tls", "server_name"),
)
"""Variables of clients in the same environment."""
OFF = "off"
MAX_WORKERS: Final = 63  # processes on one card


def _admin_address(address: str) -> str:
    return address if address == OFF else host_and_port(address, OFF)


def _message_bytes(size_bytes: ByteSize) -> ByteSize:
    if size_bytes > DEFAULT_MESSAGE_BYTES:
        why = "gRPC copies a message on the event loop, and a larger one would make all other calls wait for over 50 ms"
        size, limit = text_of(size_bytes), text_of(DEFAULT_MESSAGE_BYTES)
        raise ValueError(f"{size} is more than {limit}: {why}; larger calls go in chunks")
    return size_bytes


Seconds = Annotated[PositiveFloat, Field(le=86400)]
Switch = Literal["auto", "on", "off"]
PRIVATE: Final = "private"
"""Marks a setting about this machine: the public status page omits it if callers need an identity. No setting is
secret."""


class Settings(BaseModel):
    """The settings of one server; they never change. The docstrings are the help."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    config: Annotated[Path | None, PRIVATE] = None
    """TOML file with settings; the keys are these names with underscores."""
    listen: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(checked), PRIVATE] = ("127.0.0.1:50051",)
    """Address to serve on, host:port or unix:path; repeatable."""
    admin: Annotated[str, AfterValidator(_admin_address), PRIVATE] = "127.0.0.1:9464"
    """Address of the HTTP listener with the status page, /livez, /readyz and /metrics, host:port, or off."""
    tls_certificate: Annotated[Path | None, PRIVATE] = None
    """PEM file with the server's certificate and those that vouch for it: TLS on every TCP address; read again when it
    changes."""
    tls_key: Annotated[Path | None, PRIVATE] = None
    """PEM file with the key of the certificate, without a password."""
    tls_client_ca: Annotated[Path | None, PRIVATE] = None
    """PEM file with the authorities that sign clients' certificates: without one, no client gets in."""
    insecure: bool = False
    """Serve without TLS on addresses that other machines reach."""
    identities: Annotated[Path | None, PRIVATE] = None
    """TOML file of those who may call, with their tokens' digests or names in certificates; read again when it changes.
    By default everybody may call."""
    reflection: bool = True
    """Tell tools such as grpcurl which services there are."""
    tracing: bool = False
    """Send traces of calls to a collector by OTLP over gRPC, as the variables OTEL_* say; needs the extra otel."""
    unix_socket_mode: Annotated[str, Field(pattern=r"^0?[0-7]{3}$")] | None = None
    """Permissions of unix sockets, as 0660; by default those that the umask leaves."""
    unix_socket_group: Annotated[str | None, PRIVATE] = None
    """Group that unix sockets belong to; the server's own by default."""
    backend: Annotated[str, PRIVATE] = "auto"
    """Device library: auto, ascend, host, or the path of an ACL library."""
    acl_config: Annotated[Path | None, PRIVATE] = None
    """JSON file for aclInit."""
    device: tuple[int, ...] = ()
    """Index of a device to serve on; repeatable; all devices by default."""
    workers: Annotated[PositiveInt, Field(le=MAX_WORKERS)] | None = None
    """Processes that serve, each on one device; by default one for each device; with more, they share devices."""
    streams: Annotated[PositiveInt, Field(le=1024)] = 4
    """Most calls that run at once on one device, within its number of streams."""
    max_waiting_calls: Annotated[PositiveInt, Field(le=4096)] = 64
    """Most calls that wait to be admitted."""
    pool_bytes: Bytes | None = None
    """Limit of the memory pool of one device, besides some MiB for small calls; 90 % of its free memory by default."""
    executor_cache: Switch = "auto"
    """Reuse executors; auto: if the library is known to rerun them correctly."""
    shape_only: Switch = "auto"
    """Accept shape-only tensors for inputs that the operator does not read; auto: if the device is known not to."""
    strided_inputs: Annotated[tuple[str, ...], Field(min_length=1), PRIVATE] = ("auto",)
    """Operators that get transposed inputs and slices as they are, by name, or all or none; the others get a copy that
    the device makes; auto: all if the library is known to read them correctly."""
    probe_in_child: Switch = "auto"
    """Make the first call of each operator and dtype in a child process, so that one that crashes or hangs there is
    turned off; auto: unless devices read the host's memory."""
    deterministic: bool = False
    """Make the device return the same bits for the same call."""
    shared_memory: bool = False
    """Let clients on unix sockets name POSIX shared memory, by names that begin with aclgrad-."""
    shared_memory_owner: Annotated[tuple[NonNegativeInt, ...], PRIVATE] = ()
    """User id whose shared memory is accepted; repeatable; the server's own by default."""
    hang_timeout_s: Seconds = 60.0
    """A device is lost if a kernel does not end so long after its call, or if it takes so long to open or to copy."""
    max_message_bytes: Annotated[Bytes, AfterValidator(_message_bytes)] = ByteSize(DEFAULT_MESSAGE_BYTES)
    """Largest message to receive or send, at most 16 MiB; larger calls go in chunks."""
    max_call_bytes: Bytes | None = None
    """Memory that a program, or a call with shared memory, may take at once; half of the pool by default."""
    memory_limit_bytes: Bytes | None = None
    """Memory of the process above which calls are refused, at least 128 MiB for each worker; the control group's limit
    by default."""
    max_connection_age_s: Annotated[Seconds, Field(ge=0.1)] = 300.0
    """Clients reconnect after this time, and so find new replicas; calls in flight go on."""
    max_tensor_bytes: Bytes = ByteSize(16 * 2**30)
    """Largest tensor of a request or a reply."""
    call_timeout_s: Seconds = 300.0
    """Time limit for the wait and the computation of one call."""
    client_timeout_s: Annotated[Seconds, Field(ge=0.1)] = 60.0
    """Time limit for a client to send a message or 1 MiB of chunks, and to fetch as much."""
    drain_timeout_s: Seconds = 30.0
    """Time limit for calls in flight when the server stops."""
    tune_allocator: bool = True
    """Make glibc keep freed memory for later calls instead of unmapping it."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of log lines."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """Form of log lines; auto: text on a terminal, JSON otherwise."""

    @field_validator("listen", "device", "shared_memory_owner", "strided_inputs", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Environment variables hold lists as words separated by commas."""
        return tuple(word.strip() for word in value.split(",")) if isinstance(value, str) else value

    @field_validator("strided_inputs")
    @classmethod
    def _split_each(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        """One flag may have several names, too."""
        return tuple(word.strip() for value in values for word in value.split(","))

    @field_validator("listen", "device", "shared_memory_owner")
    @classmethod
    def _refuse_repeats(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        repeated = sorted({str(value) for value in values if values.count(value) > 1})
        # Port 0 is a new port each time.
        if any(not value.endswith(":0") for value in repeated):
            raise ValueError(f"{', '.join(repeated)} is given more than once")
        return values

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("--tls-certificate and --tls-key belong together; give both")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("--tls-client-ca needs TLS; give --tls-certificate and --tls-key too")
        # A name without a folder is looked up where CANN's libraries are.
        for path in filter(None, (self.acl_config, Path(self.backend) if "/" in self.backend else None)):
            check_trusted(path)
        check_exposure(self.listen, self.tls_certificate is not None, self.insecure)
        if self.workers is not None and len(self.device) > self.workers:
            unused = len(self.device) - self.workers
            told = f"--workers {self.workers} leaves {unused} of the devices of --device unused"
            raise ValueError(f"{told}; name fewer devices, or give more workers")
        if self.tracing and (missing := missing_libraries("otel", "aclgrad-server")):
            # The extra has no name for pip, because no index has this package.
            wanted = " ".join(map(repr, missing))
            raise ValueError(f"--tracing needs OpenTelemetry; run: pip install {wanted}")
        return self


def _describe_fields() -> None:
    """Gives each field its docstring: pydantic would search the modules for the source, at each start of a process."""
    tree = ast.parse(Path(__file__).read_text("utf-8"))
    (body,) = (each.body for each in tree.body if isinstance(each, ast.ClassDef) and each.name == Settings.__name__)
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            described = Settings.model_fields[ast.unparse(field.target)]
            described.description = cleandoc(ast.literal_eval(text.value))


_describe_fields()


class UnusableSettingsError(Exception):
    """The settings cannot be used; each argument is a line about one of them."""


def given_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value not in (None, ())}


def read_settings(flags: Mapping[str, Any]) -> Settings:
    """Returns the settings of these flags, the environment and the file; raises UnusableSettingsError."""
    given = given_flags(flags)
    variables = {name: value for name in Settings.model_fields if (value := os.environ.get(variable_of(name)))}
    try:
        # The file is itself a setting.
        file = (variables | given).get("config")
        return Settings(**(read_trusted_toml(Path(file)) if file else {}) | variables | given)
    except ValidationError as error:
        raise UnusableSettingsError(*(_line_of(each, given) for each in error.errors())) from error
    except UnusableFileError as error:
        raise UnusableSettingsError(str(error)) from error


def is_on(setting: str, default: bool) -> bool:
    """Returns what on, off or auto means where auto is the default."""
    return default if setting == "auto" else setting == "on"


def changed_settings(settings: Settings, with_private: bool = True) -> dict[str, str]:
    """Returns the settings that differ from their defaults, as text by name."""
    return {
        name: as_text(getattr(settings, name))
        for name, field in Settings.model_fields.items()
        if getattr(settings, name) != field.default and (with_private or PRIVATE not in field.metadata)
    }


def as_text(value: object) -> str:
    """Returns a value as in a flag."""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, ByteSize):
        return text_of(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def variable_of(name: str) -> str:
    return f"{_PREFIX}{name.upper()}"


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Returns variables that look like settings but are not, so that a typing error does not go unnoticed."""
    known = set(map(variable_of, (*Settings.model_fields, *_OF_CLIENTS)))
    return sorted(name for name in environment if name.startswith(_PREFIX) and name not in known)


def source_of(name: str, flags: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    """Returns the flag or the variable that gives a setting, or None if that is left to the file and the default."""
    if name in flags:
        return f"--{name.replace('_', '-')}"
    return variable_of(name) if environment.get(variable_of(name)) else None


def _line_of(error: ErrorDetails, flags: Mapping[str, Any]) -> str:
    """Returns the source of an invalid setting, and what pydantic says of it: the limit is what would be right."""
    if not error["loc"]:
        # Settings that do not fit each other.
        return str(error["ctx"]["error"])
    name = str(error["loc"][0])
    file = flags.get("config") or os.environ.get(variable_of("config"))
    if error["type"] == "extra_forbidden":
        return f"{file} has the setting {name!r}, which does not exist; see --help"
    where = source_of(name, flags, os.environ) or f"{file}: {name}"
    if error["type"] == "value_error":
        return f"{where}: {error['ctx']['error']}"
    return f"{where} is {error['input']!r}: {error['msg']}"
