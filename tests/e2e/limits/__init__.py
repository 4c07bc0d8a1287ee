"""Limits of sizes, memory and time, and clients that use them up."""
