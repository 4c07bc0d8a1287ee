"""The wire contract of both sides: the codec, which copies no tensor, and what messages mean to both."""
