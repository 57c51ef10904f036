"""The worlds of a run: which, on what pools of levels, and how the shares of a mix are dealt out and change."""
