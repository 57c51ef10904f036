"""Sokoban: push every box onto a target; boxes cannot be pulled."""
