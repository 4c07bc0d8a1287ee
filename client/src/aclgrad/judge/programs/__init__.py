"""Programs to judge: drawn at random, with the definitions' results of each step."""
