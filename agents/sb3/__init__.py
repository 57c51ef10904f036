"""Policies of stable-baselines3 that play worlds by pictures and numbers: no language, no prompt, no memory."""
