"""A window in which a person sees pictures as they are and answers."""
