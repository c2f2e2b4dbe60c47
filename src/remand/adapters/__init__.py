"""The ways in and out: one folder per port, one file per implementation."""
