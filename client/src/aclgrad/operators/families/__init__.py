"""The families: operators that differ by a formula are rows of one; others share the code of one from their folders."""
