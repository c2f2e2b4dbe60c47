"""Calls of agents through their own socket: the agent's side, the policy and the server."""
