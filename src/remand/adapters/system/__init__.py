"""The machine: its clock, its random source, and what it remembers outside the repository."""
