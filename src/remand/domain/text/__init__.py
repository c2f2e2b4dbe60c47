"""Text: visibility, redaction, and path patterns."""
