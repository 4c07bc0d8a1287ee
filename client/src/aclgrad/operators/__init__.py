"""The operator table: one file for each operator, named as the operator is on the wire."""
