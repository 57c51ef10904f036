"""`python -m agents play` shows an agent play, in the terminal or on a page; `list` names the agents."""
