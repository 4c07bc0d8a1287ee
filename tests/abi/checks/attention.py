"""Attention and its gradients, of (2, 3, 9, 16) without a mask; the second versions have a bias of all scores."""

from tools.abi.acl import DataType

from ..phase_one import NULL, Changes, Order, Refused, Tensor, changed, shapes

HALF, BF16, DOUBLE = DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
HUGE = 2**61
OF_SCORES = (2, 3, 9, 9)


def mask(*shape: int, data_type: DataType = DataType.BOOL) -> Changes:
    return {"attenMaskOptional": Tensor(shape, data_type)}


def causal(mode: int, *shape: int) -> Changes:
    return {"sparseMode": mode, "nextTokens": 0, **mask(*(shape or (2048, 2048)))}


class Names:
    """The parameters of an operator, by what they are."""

    def __init__(self, *, is_gradient: bool, has_bias: bool) -> None:
        self.key = "keyIn" if is_gradient else "key"
        self.bias = "pseShiftOptional" if is_gradient else "realShiftOptional"
        self.has_bias = has_bias
        self.of_query = ("query", *(("dy", "attentionInOptional", "dqOut") if is_gradient else ("attentionOutOut",)))
        self.of_key = (self.key, "value", *(("dkOut", "dvOut") if is_gradient else ()))
        self.statistics = tuple(f"softmax{each}{'Optional' if is_gradient else 'Out'}" for each in ("Max", "Sum"))

    @property
    def floats(self) -> tuple[str, ...]:
        return (*self.of_query, *self.of_key, *((self.bias,) if self.has_bias else ()))

    def sizes(self, query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...] = ()) -> Changes:
        """All tensors of a call of the layout BNSD; a bias has a line for each head."""
        given = changed(*self.of_query, shape=(*query[:3], (value or key)[3])) | changed(*self.of_key, shape=key)
        given |= changed(*(name for name in self.of_key if name in ("value", "dvOut")), shape=value or key)
        given |= changed(*(name for name in self.of_query if name in ("query", "dqOut")), shape=query)
        given |= changed(*self.statistics, shape=(*query[:3], 8)) | {"headNum": query[1]}
        return given | (shapes(**{self.bias: (*query[:3], key[2])}) if self.has_bias else {})

    def flat(self, layout: str, heads: int = 3) -> Changes:
        """The same call as the sample's in another layout."""
        own = {"BSND": (2, 9, 3, 16), "BSH": (2, 9, 48), "SBH": (9, 2, 48)}[layout]
        return changed(*self.of_query, *self.of_key, shape=own) | {"inputLayout": layout, "headNum": heads}


def order_of(*, is_gradient: bool, has_bias: bool) -> Order:
    names = Names(is_gradient=is_gradient, has_bias=has_bias)
    nothing = names.sizes((0, 3, 9, 16), (0, 3, 9, 16))
    # The interface itself compares the types of bias and query before anything else of a forward pass.
    of_bias = 161001 if is_gradient else 161002
    return Order(
        accepted={
            "halves": changed(*names.floats, data_type=HALF),
            "BF16": changed(*names.floats, data_type=BF16),
            **{layout: names.flat(layout) for layout in ("BSND", "BSH", "SBH")},
            **{
                f"mask {shape}": mask(*shape) | {"sparseMode": mode}
                for shape in (OF_SCORES, (2, 1, 9, 9), (1, 1, 9, 9), (9, 9))
                for mode in (0, 1)
            },
            "mask of bytes": mask(9, 9, data_type=DataType.UINT8),
            **{f"causal {mode}": causal(mode) for mode in (2, 3)},
            "one key of the head": names.sizes((2, 3, 9, 16), (2, 1, 5, 16)),
            "smaller values": names.sizes((2, 3, 9, 16), (2, 3, 9, 16), (2, 3, 9, 5)),
            "the longest heads": names.sizes((2, 3, 9, 768), (2, 3, 9, 768)),
            "nothing": nothing,
            "nothing, whatever is wrong": {**nothing, "headNum": 0, "inputLayout": "TND"},
            "no keys": names.sizes((2, 3, 9, 16), (2, 3, 0, 16)),
            "no dropout": {"dropMaskOptional": Tensor((64,), DataType.UINT8)},
            "one line of bias": shapes(**{names.bias: (2, 3, 1, 9)}) if has_bias else {},
            "bias of all sequences": shapes(**{names.bias: (1, 3, 9, 9)}) if has_bias else {},
            "scaled bias": {"pseType": 1} if has_bias else {},
        },
        refused=(
            *_nulls(names, is_gradient),
            Refused({"headNum": 0} | shapes(query=(2, 3, 9)), "headNum: expected more than 0"),
            Refused({"headNum": -1} | {"inputLayout": "NSD"}, "headNum: expected more than 0"),
            Refused({"inputLayout": "TND"}, "inputLayout: TND is not computed"),
            Refused({"inputLayout": "NBSD"}, "inputLayout: expected BNSD, BSND, BSH or SBH, got NBSD"),
            Refused({"inputLayout": ""}, "inputLayout: expected BNSD, BSND, BSH or SBH"),
            Refused(changed("value", data_type=HALF, shape=(2, 3, 9)), "value: expected the data type of"),
            Refused(changed(*names.floats, data_type=DOUBLE), "query: expected data type"),
            Refused({"inputLayout": "BSH"}, "query: expected rank 3"),
            Refused(changed(*names.of_query, *names.of_key, shape=(2, 9, 48)), "query: expected rank 4"),
            Refused({"headNum": 2}, "query: expected dim 1"),
            Refused(names.flat("BSH", 5), "query: expected a last dim that headNum divides"),
            Refused(names.flat("BSH") | shapes(**{names.key: (2, 9, 47)}), f"{names.key}: expected a last dim of"),
            Refused(names.flat("BSH") | shapes(value=(2, 9, 47)), "value: expected a last dim that the heads"),
            Refused(names.sizes((2, 3, 9, 16), (2, 3, 9, 15)), f"{names.key}: expected dim 3"),
            Refused(names.sizes((2, 3, 9, 16), (2, 3, 9, 16), (2, 3, 9, 17)), "value: expected heads that are no"),
            Refused(names.sizes((2, 3, 9, 769), (2, 3, 9, 769)), "query: expected heads of at most 768"),
            Refused(names.sizes((2, 3, 9, 16), (3, 3, 9, 16)), f"{names.key}: expected dim 0"),
            Refused(shapes(value=(2, 3, 8, 16)), "value: expected dim 2"),
            Refused(shapes(value=(2, 2, 9, 16)), "value: expected dim 1"),
            Refused(names.sizes((2, 3, 9, 16), (2, 2, 9, 16)), f"{names.key}: expected heads that divide the 3", NULL),
            Refused(names.sizes((2, 3, 9, 16), (2, 6, 9, 16)), f"{names.key}: expected heads that divide the 3", NULL),
            *(
                Refused(shapes(**{each: (2, 3, 9)}), f"{each}: expected [2, 3, 9, 8]", NULL)
                for each in names.statistics
            ),
            *(Refused(shapes(**{each: (2, 9, 3, 8)}), f"{each}: expected", NULL) for each in names.statistics),
            *(Refused(changed(each, data_type=HALF), f"{each}: expected FLOAT", NULL) for each in names.statistics),
            *(Refused({"keepProb": each}, "keepProb: expected a number above 0, up to 1", NULL) for each in (0.0, 1.5)),
            Refused({"keepProb": 0.5}, "keepProb: expected 1", NULL),
            *(Refused({"sparseMode": each}, "sparseMode: expected 0, 1, 2 or 3", NULL) for each in (-1, 4, 5, 9)),
            *(Refused(mask(*each), "attenMaskOptional: expected [B, N", NULL) for each in _MASKS),
            Refused(mask(9, 9, data_type=DataType.INT8), "attenMaskOptional: expected BOOL or UINT8", NULL),
            *(Refused(causal(each, 9, 9), "attenMaskOptional: expected [2048, 2048]", NULL) for each in (2, 3)),
            Refused(changed("query", strides=(HUGE, HUGE, HUGE, HUGE)), "query: expected a view"),
            Refused(names.sizes((2, 3, HUGE, 16), (2, 3, 9, 16)), ""),
            *(_biased(names, of_bias) if has_bias else ()),
            *(_gradients(names) if is_gradient else ()),
        ),
        valid={"attenMaskOptional": None},
    )


_MASKS = ((1, 3, 9, 9), (2, 3, 1, 9), (2, 3, 9, 1), (1, 9), (9,), (3, 9, 9), (9, 8), (2048, 2048))


def _nulls(names: Names, is_gradient: bool) -> list[Refused]:
    results = ("attentionInOptional", "dqOut", "dkOut", "dvOut") if is_gradient else ("attentionOutOut",)
    first = ("query", names.key, "value")
    ordered = (*first, "dy", *results) if is_gradient else (*first, "inputLayout", *names.statistics, *results)
    pairs = zip(ordered, (*ordered[1:], ordered[-1]), strict=True)
    return [Refused(dict.fromkeys(pair), f"{pair[0]} must not be null", NULL) for pair in pairs]


def _biased(names: Names, code: int) -> list[Refused]:
    expected = f"{names.bias}: expected [B, N, S, T]"
    return [
        Refused(changed(names.bias, data_type=HALF) | ({"headNum": 0} if code != NULL else {}), names.bias, code),
        *(
            Refused(shapes(**{names.bias: each}), expected, NULL)
            for each in ((2, 1, 9, 9), (9, 9), (2, 3, 9, 1), (3, 3, 9, 9), (1, 3, 1, 8))
        ),
        *(Refused({"pseType": each}, "pseType: expected 0 or 1", NULL) for each in (-1, 2, 3, 4)),
    ]


def _gradients(names: Names) -> list[Refused]:
    return [
        Refused(changed(each, data_type=HALF), f"{each}: expected the data type of query")
        for each in ("dy", "attentionInOptional", "dqOut", "dkOut", "dvOut")
    ] + [
        Refused(shapes(dy=(2, 3, 9, 15)), "dy: expected"),
        Refused(shapes(attentionInOptional=(2, 3, 8, 16)), "attentionInOptional: expected"),
        Refused(shapes(dqOut=(2, 3, 8, 16)), "dqOut: expected"),
        Refused(shapes(dkOut=(2, 3, 8, 16)), "dkOut: expected"),
        Refused(shapes(dvOut=(2, 3, 9, 15)), "dvOut: expected"),
    ]


_ROWS = {"": False, "_v2": True}
ORDERS = {
    f"flash_attention_score{of}{version}": order_of(is_gradient=bool(of), has_bias=has_bias)
    for of in ("", "_grad")
    for version, has_bias in _ROWS.items()
}
