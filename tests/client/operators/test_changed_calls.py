"""A legal call is refused once it is changed: shapes that do not fit, and attributes out of bounds."""

from dataclasses import dataclass, field, replace

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

A2, P950, P310, P910A = Product.ATLAS_A2, Product.ASCEND_950, Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING


@dataclass(frozen=True)
class Changed:
    """The example of an operator with other shapes and attributes; its first case, or the one of this name."""

    operator: str
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    case: str = ""
    product: Product = A2
    dtype: str = "float32"

    def fields(self) -> set[str]:
        """Returns what is wrong, as validation finds it: of attributes by themselves, and else of them together."""
        spec, samples = OPERATORS[self.operator], samples_of(self.operator)
        first = next((each for each in samples.cases if each.name == self.case), samples.cases[0])
        shapes, attributes = {**first.shapes, **self.shapes}, {**first.attributes, **self.attributes}
        arguments = replace(first, shapes=shapes, attributes=attributes).arguments(spec, self.dtype)
        alone = {each.field for row in spec.attributes for each in row.check(arguments.attributes[row.name])}
        return alone or {each.field for each in spec.check(arguments, self.product)}


NLL, NLL2D, CROSS, CTC = "nll_loss_backward", "nll_loss2d_backward", "cross_entropy_loss_grad", "ctc_loss_backward"
BILINEAR = "upsample_bilinear2d_backward_v2"
REFUSED = {
    "a negative alpha of a result": (
        Changed("elu_backward", attributes={"is_result": True, "alpha": -1.0}), "attributes[alpha]",
    ),
    "bounds the other way round": (
        Changed("hardtanh_backward", attributes={"min": 1.0, "max": -1.0}), "attributes[min]",
    ),
    "a bound that is not a number": (
        Changed("hardtanh_backward", attributes={"max": float("nan")}), "attributes[max]",
    ),
    "a negative size": (Changed("hardshrink_backward", attributes={"lambd": -0.5}), "attributes[lambd]"),
    "a beta of 0": (Changed("smooth_l1_loss_backward", attributes={"beta": 0.0}), "attributes[beta]"),
    "a beta that a 950 divides by": (
        Changed("smooth_l1_loss_backward", attributes={"beta": 1e-7}), "attributes[beta]",
    ),
    "a beta that is not a number": (
        Changed("smooth_l1_loss_backward", attributes={"beta": float("nan")}), "attributes[beta]",
    ),
    "the mean of a batch": (Changed("mse_loss_backward", attributes={"reduction": 3}), "attributes[reduction]"),
    "a reduction that no loss has": (Changed("kl_div_backward", attributes={"reduction": 4}), "attributes[reduction]"),
    "a target that is not broadcast to the input": (
        Changed("l1_loss_backward", {"target": (4,)}), "inputs[target].shape",
    ),
    "a target of more axes": (
        Changed("l1_loss_backward", {"target": (1, 2, 3, 4, 5)}), "inputs[target].shape",
    ),
    "logits with a target that is broadcast": (
        Changed("binary_cross_entropy_with_logits_backward", {"target": (5,)}), "inputs[target].shape",
    ),
    "weights of another number of classes": (
        Changed("binary_cross_entropy_backward", {"weight": (7,)}), "inputs[weight].shape",
    ),
    "a mean of many halves": (
        Changed("kl_div_backward", {"self": (2**9, 2**9), "target": (1, 1)}, dtype="float16"), "attributes[reduction]",
    ),
    "targets for a row of classes": (Changed(NLL, {"target": (7,)}, case="of_a_row"), "inputs[target].shape"),
    "fewer targets than rows": (Changed(NLL, {"target": (5,)}), "inputs[target].shape"),
    "fewer weights than classes": (Changed(NLL, {"weight": (9,)}), "inputs[weight].shape"),
    "a total for each row": (Changed(NLL, {"total_weight": (2,)}), "inputs[total_weight].shape"),
    "a gradient for each row of a mean": (Changed(NLL, {"grad_output": (6,)}), "inputs[grad_output].shape"),
    "one gradient for rows that are not reduced": (
        Changed(NLL, {"grad_output": ()}, case="none"), "inputs[grad_output].shape",
    ),
    "an index that INT32 does not hold": (Changed(NLL, attributes={"ignore_index": 2**31}), "attributes[ignore_index]"),
    "pixels of another image": (Changed(NLL2D, {"target": (2, 6, 4)}), "inputs[target].shape"),
    "a z-loss": (Changed(CROSS, {"lse_for_zloss": (6,)}), "inputs[lse_for_zloss]"),
    "a scale of a z-loss": (
        Changed(CROSS, attributes={"lse_square_scale_for_zloss": 0.5}), "attributes[lse_square_scale_for_zloss]",
    ),
    "too much smoothing": (Changed(CROSS, attributes={"label_smoothing": 1.5}), "attributes[label_smoothing]"),
    "a blank that is no class": (Changed(CTC, attributes={"blank": 6}), "attributes[blank]"),
    "more steps than there are": (Changed(CTC, attributes={"input_lengths": (13, 1, 1)}), "attributes[input_lengths]"),
    "a length for each but one": (Changed(CTC, attributes={"target_lengths": (1, 2)}), "attributes[target_lengths]"),
    "targets that are longer than alpha": (Changed(CTC, {"log_alpha": (3, 12, 9)}), "inputs[log_alpha].shape"),
    "targets beyond their rows": (Changed(CTC, {"targets": (3, 4)}), "inputs[targets].shape"),
    "more targets than lengths": (
        Changed(CTC, {"targets": (12,)}, case="one_after_the_other"), "inputs[targets].shape",
    ),
    "an odd size": (Changed("glu_backward", {"self": (2, 3, 39)}), "inputs[self].shape"),
    "an axis that does not exist": (Changed("glu_backward", attributes={"dim": 3}), "attributes[dim]"),
    "slopes of another axis": (Changed("prelu_backward", {"weight": (2,)}), "inputs[weight].shape"),
    "a mask that is short by a byte": (Changed("dropout_do_mask", {"mask": (15,)}), "inputs[mask].shape"),
    "a mask of a longer tensor": (Changed("dropout_do_mask", {"mask": (32,)}), "inputs[mask].shape"),
    "a probability above 1": (Changed("dropout_do_mask", attributes={"prob": 1.25}), "attributes[prob]"),
    "a share that float16 holds no reciprocal of": (
        Changed("dropout_do_mask", attributes={"prob": 0.999999}, dtype="float16"), "attributes[prob]",
    ),
    "another scale than that of the sizes": (Changed(BILINEAR, attributes={"scales_w": 2.5}), "attributes[scales_w]"),
    "sizes for which a product writes nothing": (
        Changed(BILINEAR, attributes={"input_size": (2, 3, 8, 10)}, product=P910A), "attributes[output_size]",
    ),
}  # fmt: skip
TAKEN = {
    "weights that are broadcast": Changed("binary_cross_entropy_backward", {"weight": (3, 1, 1)}),
    "a mean of many halves on a 950": Changed(
        "kl_div_backward", {"self": (2**9, 2**9), "target": (1, 1)}, product=P950, dtype="float16"
    ),
    "the mean of a batch": Changed("kl_div_backward", attributes={"reduction": 3}),
    "a class that is ignored": Changed(NLL, attributes={"ignore_index": 3}),
    "nothing kept": Changed("dropout_do_mask", attributes={"prob": 1.0}, dtype="float16"),
    "the scales of the sizes": Changed(BILINEAR, attributes={"scales_h": 2.0, "scales_w": 2.0}),
    "equal sizes": Changed(BILINEAR, attributes={"input_size": (2, 3, 8, 10)}),
    "more alpha than targets need": Changed(CTC, {"log_alpha": (3, 12, 13)}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str) -> None:
    changed, field_name = REFUSED[name]
    assert changed.fields() == {field_name}


@pytest.mark.parametrize("name", TAKEN)
def test_it_is_taken(name: str) -> None:
    assert not TAKEN[name].fields()
