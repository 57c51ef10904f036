"""Questions about documents from a user's own folder."""
