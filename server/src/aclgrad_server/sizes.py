"""Numbers of bytes as people write them: 300000000, 300M, 2GiB."""

import re
from typing import Annotated, Any, Final

from pydantic import ByteSize, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

MAX_BYTES: Final = ByteSize(2**48)
"""More than any machine has."""
_SIZE: Final = re.compile(r"\d{1,18}(\.\d{1,18}(?=\s*[kmgt]))?\s*([kmgt]i?)?b?", re.IGNORECASE | re.ASCII)
_UNITS: Final = {
    "TiB": 2**40,
    "TB": 10**12,
    "GiB": 2**30,
    "GB": 10**9,
    "MiB": 2**20,
    "MB": 10**6,
    "KiB": 2**10,
    "kB": 10**3,
    "": 1,
}


def text_of(size: int) -> str:
    """Returns the shortest text for exactly this size."""
    return min((f"{size // unit}{name}" for name, unit in _UNITS.items() if size % unit == 0), key=len)


def _parse(value: Any, parse: ValidatorFunctionWrapHandler) -> ByteSize:
    """ByteSize alone takes 300,000 for 300 and 5-3 for 5, and does not know Kubernetes' 300Mi."""
    text = str(value).strip()
    if _SIZE.fullmatch(text):
        size: ByteSize = parse(f"{text}B" if text[-1] in "iI" else text)
        if 0 < size <= MAX_BYTES:
            return size
    told = "give bytes from 1 to {most}, or a number with a unit such as 300M or 2GiB"
    raise PydanticCustomError("byte_size", told, {"most": text_of(MAX_BYTES)})


Bytes = Annotated[ByteSize, WrapValidator(_parse)]
"""A positive number of bytes: k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti powers of 1024; a B may follow."""
