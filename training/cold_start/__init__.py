"""The cold start: supervised training on an expert's episodes before reinforcement learning."""
