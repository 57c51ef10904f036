"""Furnished homes: floor plans, furniture, walkable space, visibility, and rendering.

Everything here is data and pure functions of it; only `panda_engine` needs a package beyond NumPy.
"""
