"""The codec: messages to bytes and back, without a copy of any tensor."""
