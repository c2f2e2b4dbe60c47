"""The agents' hosts that Remand knows."""

from __future__ import annotations

HOSTS = ("claude", "codex", "copilot", "cursor", "gemini", "qwen", "openhands")
