"""Vector environments: many worlds at once, their workers, and pools of workers."""
