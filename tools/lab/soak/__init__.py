"""Mixed calls for hours, restarts of workers, and a judgement of what grows."""
