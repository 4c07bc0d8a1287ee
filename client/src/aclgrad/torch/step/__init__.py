"""A whole training step as programs: traced once, sent with new values each time, checked now and then."""
