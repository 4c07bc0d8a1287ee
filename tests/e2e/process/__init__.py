"""The process: how it starts, reports and stops."""
