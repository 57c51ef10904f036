"""Worlds as they are played: mixes and their shares, pools of levels, and episodes that survive lost workers."""
