"""What each turn earns in all: the world's reward and what the judges add."""
