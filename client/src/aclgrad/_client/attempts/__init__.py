"""The attempts of a call: when another one follows, and the error of one that failed."""
