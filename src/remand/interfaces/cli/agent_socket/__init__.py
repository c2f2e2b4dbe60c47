"""Calls of agents through a socket of their own: the agent's side, the policy and the server."""
