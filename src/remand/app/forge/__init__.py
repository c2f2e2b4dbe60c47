"""forge"""
