"""What follows from events: the changes to a task by noun, which `evolve` dispatches to."""
