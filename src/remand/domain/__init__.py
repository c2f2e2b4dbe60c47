"""Rules and facts: what may happen to a task, and what follows from it."""
