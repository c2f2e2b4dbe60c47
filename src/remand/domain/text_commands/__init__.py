"""Commands and questions in plain English: a small grammar turns a sentence into a request, a question back, or nothing."""
