"""Queues of jobs."""
