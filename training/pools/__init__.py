"""Pools: finite sets of a world's levels, from settings to the command that draws one."""
