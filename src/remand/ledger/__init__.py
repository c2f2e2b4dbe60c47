"""The truth and its form: how events are written, read, ordered and kept."""
