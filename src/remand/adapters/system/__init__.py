"""The machine: its clock, random source, locks, commands, and files outside the repository."""
