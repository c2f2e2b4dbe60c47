"""Whether what an agent ran bears out what it says it attempted."""
