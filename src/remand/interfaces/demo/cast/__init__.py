"""The agents of the story: each a script with a character, started by the scheduler as any agent is.

They are told what to do on standard input, know git and the command line, and nothing else of Remand.
"""
