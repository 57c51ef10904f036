"""Worlds in the forms that other libraries ask for."""
