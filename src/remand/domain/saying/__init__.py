"""What somebody said in plain words: a small grammar makes a wish of it, a question, or nothing.

Whole sentences alone are obeyed. Whatever says more than a pattern does, or names what is not known for sure,
becomes a question with the commands that would do it.
"""
