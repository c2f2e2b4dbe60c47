"""Proposes gates for a project: one module for each ecosystem, whose `propose` reads files and runs nothing."""
