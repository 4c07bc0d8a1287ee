"""The server's parts, on fake devices."""
