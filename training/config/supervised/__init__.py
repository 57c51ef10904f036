"""Supervised phases: the cold start, fine-tuning and the training of an upscaler, which take their steps alike."""
