"""Pictures: fair comparison of mechanisms."""
