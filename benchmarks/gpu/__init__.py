"""What training takes of a GPU, with a model of random weights as large as the papers'."""
