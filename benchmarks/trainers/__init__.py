"""Compares training iterations of this project and of its peers on equal work."""
