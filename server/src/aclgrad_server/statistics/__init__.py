"""What the server counts of its calls. The main loop writes, any thread reads; nobody takes a lock."""
