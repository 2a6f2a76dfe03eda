"""Situation in, decision out: pure, standard library only. `policy(name)` finds a law by the name operators type."""

from __future__ import annotations

from policies.registry import names, policy

__all__ = ["names", "policy"]
