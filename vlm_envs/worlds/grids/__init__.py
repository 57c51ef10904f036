"""What every grid world shares: directions, level text, spatial relations and tile art."""
