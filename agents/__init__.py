"""Who acts: oracle, random, transformers models; and the one rollout loop that training and evaluation share."""
