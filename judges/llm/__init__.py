"""Language models as judges: prompts, reply readers, and judge classes. Needs the `judge` extra."""
