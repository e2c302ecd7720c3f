"""Pictures: accounting."""
