"""Questions about scenes: what may be asked, by category."""
