"""Parsers of tool reports into figures, findings and tests. Parsers of one family share a module."""
