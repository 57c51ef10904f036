"""Results: what runs came to, kept in small files that tables and pictures are made from."""
