"""Training steps whose operators are judged one by one."""
