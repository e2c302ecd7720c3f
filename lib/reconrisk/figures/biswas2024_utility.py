"""Pictures: utility."""
