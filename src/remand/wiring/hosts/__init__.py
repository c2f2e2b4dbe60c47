"""Agent hosts, chosen by name, and our entries in their settings."""
