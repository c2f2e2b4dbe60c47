"""The demo's scripted agents, started by the scheduler as any agent is; they know git and the command line alone."""
