"""Who measures: leaderboard runs, speed, side-by-side runs with peers, ablations."""
