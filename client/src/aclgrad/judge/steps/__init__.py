"""The programs of a training step, each of their steps judged on the inputs that it had on the server."""
