"""What tools say, read into figures, findings and tests: one parser a file, each with `parse`, `FIGURES` and `DEFAULTS`."""
