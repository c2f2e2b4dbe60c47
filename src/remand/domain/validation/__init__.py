"""Judges task rejections by their substance: one small rule a flaw, and a score that can be explained."""
