"""The contract of a world, as checks that anyone can run on a world of their own."""
