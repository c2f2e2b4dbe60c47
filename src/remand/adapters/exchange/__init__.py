"""Events as files that travel with git."""
