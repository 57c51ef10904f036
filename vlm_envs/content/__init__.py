"""What generated worlds show and ask about: homes, scenes, reports, and responses with flaws."""
