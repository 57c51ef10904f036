"""Language models as judges: prompts, readers of their replies, and what is asked. Needs the `judge` extra."""
