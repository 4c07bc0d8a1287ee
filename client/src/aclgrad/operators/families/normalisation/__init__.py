"""Normalisations by means and variances, or by mean squares: an operator is a row of each module."""
