"""What is learned from: mixes of worlds, demonstrations and curated rollouts."""
