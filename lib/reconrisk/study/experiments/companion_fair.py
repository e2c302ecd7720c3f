"""fair comparison of mechanisms"""
