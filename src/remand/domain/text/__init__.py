"""Text: what is made visible, what is redacted, and patterns of paths."""
