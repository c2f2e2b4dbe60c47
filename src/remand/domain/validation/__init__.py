"""Judges task rejections by their substance: one small rule per flaw, and an explainable score."""
