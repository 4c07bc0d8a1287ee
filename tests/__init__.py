"""Every test of the project; each folder mirrors one of its packages."""
