"""Commands on tasks: changes, views, handoffs, gates, reviews and the inbox."""
