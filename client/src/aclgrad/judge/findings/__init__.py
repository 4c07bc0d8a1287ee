"""What gradients are judged by, and how findings are kept and shown: the same for every command that compares."""
