"""What slow proofs share with unit tests."""

from tests.unit.conftest import tiny_directory  # noqa: F401  (a fixture)
