"""One training iteration as a picture: who waits for whom."""
