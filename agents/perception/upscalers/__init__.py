"""Upscalers that need torch, behind the protocol of `vlm_envs.tools.upscale`."""
