"""The event log: how events are written, read, ordered, signed and stored."""
