"""Commands and questions in plain English: a table of patterns maps a sentence to a request, a question back, or nothing."""
