"""The cold start: supervised learning from an expert's episodes before reinforcement learning."""
