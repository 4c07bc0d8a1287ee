"""Gated units, which multiply one half of a tensor by the other, and their gradients: an operator is a row of each
module.
"""
