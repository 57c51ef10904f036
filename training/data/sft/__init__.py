"""Data sets to fine-tune on: conversations with pictures, read, encoded, held out and put in order."""
