"""What tools say, read into figures, findings and tests: parsers of one family of reports share a module."""
