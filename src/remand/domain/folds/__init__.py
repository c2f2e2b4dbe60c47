"""The effects of events on a task, by noun; `evolve` dispatches to them."""
