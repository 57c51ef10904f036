"""ARM-Thinker's judge: a model that looks at the responses with tools before it says which is right."""
