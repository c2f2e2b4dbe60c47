"""The decisions, by noun; `decide` dispatches to them."""
