"""Questions about reports: one right answer each, and the pages that hold it."""
