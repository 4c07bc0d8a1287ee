"""Scale on paper: the figures of docs/scale.md from measured times, and simulations that check the formulas."""
