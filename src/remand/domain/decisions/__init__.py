"""What may happen: the decisions about each noun, which `decide` dispatches to."""
