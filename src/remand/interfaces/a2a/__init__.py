"""The A2A endpoint: other orchestrators hand tasks in, follow them, and read why something was refused."""
