"""Navigation: find a thing in a furnished home, in first-person view."""
