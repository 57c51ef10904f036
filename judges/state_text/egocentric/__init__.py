"""Judging text of a search through a home: directions and distances of things, as seen by the player."""
