"""The providers' formats: one file each, through the provider's official package."""
