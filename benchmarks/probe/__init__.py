"""What a linear probe reads of the true state in a model's vision features: does it see?"""
