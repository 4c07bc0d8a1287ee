"""Calls of embedding_dense_backward."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from aclgrad.operators.samples import Arrays, Case, Integer, Samples, case, draw_sizes, long_rows


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """The indices are rows of the weight."""
    weights, indices = int(str(example.attributes["num_weights"])), arrays["indices"]
    drawn = generator.integers(0, max(weights, 1), indices.shape)
    return {**arrays, "indices": drawn.astype(indices.dtype)}


def embedding_case(
    name: str,
    indices: tuple[int, ...],
    weights: int,
    columns: int,
    *,
    padding: int = -1,
    scales: bool = False,
    dtype: str = "int64",
) -> Case:
    """Returns a case with indices of the dtype."""
    return case(
        name,
        {"num_weights": weights, "padding_idx": padding, "scale_grad_by_freq": scales},
        fixed={"indices": dtype},
        grad_output=(*indices, columns),
        indices=indices,
    )


def _draw(integer: Integer) -> Case:
    indices, weights = draw_sizes(integer, integer(1, 3), 1, 6), integer(1, 12)
    dtype = "int64" if integer(0, 1) else "int32"
    padding = integer(-1, weights - 1)
    return embedding_case(
        "drawn", indices, weights, integer(1, 40), padding=padding, scales=bool(integer(0, 1)), dtype=dtype
    )


def _long(cells: int) -> Iterator[Case]:
    for name, rows, columns in long_rows(cells):
        yield embedding_case(f"{name}_of_weights", (3,), rows, columns)
        yield embedding_case(f"{name}_of_indices", (rows,), 3, columns)
    yield embedding_case("of_both", (cells,), cells, 1)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    given = (attributes[name] for name in ("num_weights", "padding_idx", "scale_grad_by_freq"))
    return torch.ops.aten.embedding_dense_backward(tensors["grad_output"], tensors["indices"], *given)


SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: (embedding_case("rows", (5,), 4, length),),
    timed={
        "16 KB": embedding_case("timed", (8,), 8, 256),
        "6 MB": embedding_case("timed", (1024,), 1024, 768),
        "100 MB": embedding_case("timed", (16384,), 16384, 768),
        "1 GB": embedding_case("timed", (163840,), 163840, 768),
    },
    pytorch=_pytorch,
    long=_long,
    values=_values,
    has_signed_weights=True,
    picture=embedding_case("picture", (3,), 3, 4),
    cases=(
        embedding_case("sentences", (3, 7), 10, 16),
        embedding_case("int32_indices", (3, 7), 10, 9, dtype="int32"),
        embedding_case("padding", (20,), 5, 8, padding=0),
        embedding_case("scaled", (20,), 5, 8, scales=True),
        embedding_case("scaled_with_padding", (4, 5), 6, 3, padding=2, scales=True),
        embedding_case("one_row", (9,), 1, 4),
        embedding_case("one_column", (9,), 4, 1),
        embedding_case("many_rows", (30,), 3000, 60),
        embedding_case("often_the_same", (500,), 3, 20),
        embedding_case("eight_dimensions", (1, 2, 1, 2, 1, 2, 2), 4, 3),
        embedding_case("no_indices", (0, 3), 4, 5),
        embedding_case("no_columns", (2, 3), 4, 0),
        embedding_case("nothing", (0,), 0, 3),
    ),
)
