"""Settings: what a scene is a picture of."""
