"""Questions about clips: how clips are drawn, what is asked about them, and samples of them."""
