"""Interfaces: they translate outside input into commands and queries, and contain no rules."""
