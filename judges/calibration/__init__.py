"""How far a judge can be trusted: its agreement with the truth, and what it pays for blind guesses."""
