"""attacks that know von Mises-Fisher noise"""
