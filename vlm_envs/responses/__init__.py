"""What a model writes and what it is asked to write: prompts, formats, parsing, answers and verdicts."""
