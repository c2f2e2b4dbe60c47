"""Doors: they translate outside words to asks and queries, and hold no rules."""
