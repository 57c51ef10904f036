"""The contract of a world, as checks that users can run on their own worlds."""
