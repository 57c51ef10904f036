"""What a board says: success, effort, perception, strata, groups and ways of asking."""
