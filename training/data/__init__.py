"""What is learned from: mixes of worlds, pools of levels, demonstrations and curated rollouts."""
