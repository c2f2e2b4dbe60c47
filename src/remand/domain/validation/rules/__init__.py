"""One small function a flaw, grouped by what it looks at."""
