"""Many worlds at once: the vector environment, its workers and the pools they run in."""
