"""Learning from rejections: what is rejected, why, by whom, how it was answered, and what came of it."""
