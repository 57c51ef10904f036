"""Furnished homes: how they are laid out, what stands in them, where one can walk, what one sees and how it looks.

Everything here is data and pure functions of it; only `panda_engine` needs a package besides NumPy.
"""
