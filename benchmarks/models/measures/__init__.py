"""What a board says: success, effort, perception, groups and ways of asking."""
