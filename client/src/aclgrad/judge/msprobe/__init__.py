"""The files of msprobe, Ascend's tool for finding wrong gradients: its dumps, and the CSVs of its accuracy check."""
