"""Limits of the contract. No legal message exceeds them; they are checked before any work in proportion to its size.

The docstring of each is its row on the site's page of limits.
"""

from typing import Final

DEFAULT_MESSAGE_BYTES: Final = 16 * 2**20
"""A message, and its reply, by default. Larger programs go in chunks."""
MAX_STEPS: Final = 4096
"""Steps of one program."""
MAX_TABLE_TENSORS: Final = 4096
"""Tensors in the table of one program."""
DEFAULT_CHUNK_BYTES: Final = 2**20
"""A chunk, if the client names no size."""
MAX_CHUNK_BYTES: Final = 2**20
"""Bytes of a tensor in one chunk, in either direction: larger chunks are not faster and hold more memory."""
MAX_REST_BYTES: Final = 2**16
"""A call of one operator, without the data of its tensors."""
MAX_PROGRAM_REST_BYTES: Final = 2**20
"""A program, without the data of its tensors."""
MAX_RANK: Final = 8
"""Dimensions of a tensor."""
MAX_INPUTS: Final = 1040
"""Inputs of a step: some take lists of up to 1024 tensors."""
MAX_OUTPUTS: Final = 16
"""Outputs of a step."""
MANY_INPUTS: Final = 16
"""More inputs than a step has without a list."""
MAX_ATTRIBUTES: Final = 32
"""Attributes of a step."""
MAX_LIST_LENGTH: Final = 4096
"""Values of an attribute that is a list: some have one for each sample of a batch."""
MAX_NAME: Final = 64
"""Characters of a name that an error repeats; the rest is left out."""
MAX_VIOLATIONS: Final = 8
"""Violations that one error reports; the rest is left out."""
