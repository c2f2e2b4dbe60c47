"""Review feedback: from hostile text to the section an agent reads."""
