"""Agents at work: who is given what, how a run begins and ends, and what is done when the system itself fails."""
