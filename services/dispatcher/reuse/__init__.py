"""Jobs that wait for a twin: they take its result, or one of them becomes the twin."""
