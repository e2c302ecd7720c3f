"""Pictures: reconstruction."""
