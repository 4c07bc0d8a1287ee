"""Programs of steps: what they demand and claim, and how they run."""
