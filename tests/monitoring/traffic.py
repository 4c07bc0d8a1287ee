"""Calls of every kind: by every method and operator, good ones and failing ones, and one of an unknown caller."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from tools.authority import Authority, write_identities

MESSAGE_BYTES: Final = 2**20
TOKEN: Final = "operators-token"
IDENTITIES: Final[Mapping[str, Mapping[str, object]]] = {"operator": {"token": TOKEN, "rights": ["execute", "status"]}}
GRAD: Final = np.ones((1, 1, 1), np.float32)
IN_CHUNKS: Final = (1, 600, 600)
"""The shape of a reply that does not fit in a message."""


class Traffic:
    """A folder with the files of a server that has TLS and identities, and the callers of that server."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder)
        identities = write_identities(folder / "identities.toml", IDENTITIES)
        limit = "--max-message-bytes", str(MESSAGE_BYTES)
        self.flags = *self._authority.server_flags(), "--identities", identities, *limit

    def make(self, address: str) -> None:
        """Makes each kind of call once."""
        with self._client(address, TOKEN) as client:
            client.list_operators()
            client.server_status()
            batch = client.batch()
            for typed in first_cases(Product.ATLAS_A2):
                call = typed.spec.name, typed.arrays(), dict(typed.case.attributes)
                client.execute(*call)
                batch.execute(*call)
            batch.execute("adaptive_avg_pool2d_backward", {})
            batch.run(return_errors=True)
            client.adaptive_avg_pool2d_backward(GRAD, IN_CHUNKS)
            with pytest.raises(aclgrad.InvalidFieldError):
                client.execute("adaptive_avg_pool2d_backward", {"grad_output": GRAD})
        with self._client(address, "of nobody") as stranger, pytest.raises(aclgrad.NotAuthenticatedError):
            stranger.list_operators()

    def _client(self, address: str, token: str) -> aclgrad.Client:
        credentials = aclgrad.Credentials(ca=self._authority.ca, token=token)
        return aclgrad.Client(address, credentials=credentials, retries=0, timeout_s=60)
