"""Pictures: capacity."""
