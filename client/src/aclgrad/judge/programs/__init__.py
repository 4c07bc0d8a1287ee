"""Programs to judge: drawn at random, with what the definitions give for each of their steps."""
